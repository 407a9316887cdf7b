#!/bin/sh
# Makes the certificates that the tests of fetch/certificates.py show to the client. They live for a hundred years; the keys are
# public, and no authority that anybody believes has signed them.
set -e
cd "$(dirname "$0")"
key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
names="DNS:a.test,DNS:b.test,DNS:xn--so-sia.test"

openssl req -x509 $key -keyout authority.key -out authority.pem -days 36500 -subj "/CN=Tarrafa test authority" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign"
sign() { # name, first day, last day
    openssl req $key -keyout "$1.key" -out "$1.csr" -subj "/CN=a.test"
    printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n' "$names" > "$1.ext"
    : > index.txt
    openssl ca -batch -config /dev/stdin -in "$1.csr" -out "$1.crt" -cert authority.pem -keyfile authority.key \
        -startdate "$2" -enddate "$3" -extfile "$1.ext" -notext <<CONFIG
[ca]
default_ca = test
[test]
database = index.txt
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = anything
unique_subject = no
[anything]
commonName = supplied
CONFIG
    cat "$1.crt" "$1.key" > "$1.pem"
}
sign good 20200101000000Z 21251231000000Z
sign expired 20200101000000Z 20210101000000Z
openssl req -x509 $key -keyout self_signed.key -out self_signed.crt -days 36500 -subj "/CN=a.test" \
    -addext "subjectAltName=$names"
cat self_signed.crt self_signed.key > self_signed.pem
rm -f ./*.key ./*.csr ./*.ext ./*.crt index.txt* ./[0-9A-F][0-9A-F]*.pem
