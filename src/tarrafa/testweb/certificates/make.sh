#!/bin/sh
# How the certificates of the TLS corners were made (openssl 3.0). They are for tests on loopback only: the key of the
# servers is public, and that of the authority was thrown away. All are valid for 100 years but the one that is not.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: > "$work/index"
cat > "$work/ca.cnf" <<CNF
[ca]
default_ca = test
[test]
database = $work/index
new_certs_dir = $work
rand_serial = yes
default_md = sha256
policy = anything
copy_extensions = copy
unique_subject = no
[anything]
commonName = supplied
CNF
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }
key "$work/ca.key"
key key.pem
openssl req -new -key "$work/ca.key" -subj "/CN=Tarrafa test authority, not to be trusted" -out "$work/ca.csr" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" \
    -addext "subjectKeyIdentifier=hash" -addext "nameConstraints=critical,permitted;DNS:test"
openssl ca -batch -notext -config "$work/ca.cnf" -selfsign -keyfile "$work/ca.key" -in "$work/ca.csr" -out ca.pem \
    -startdate 20200101000000Z -enddate 21200101000000Z
request() { openssl req -new -key key.pem -subj "/CN=$1" -addext "subjectAltName=DNS:$1" -out "$work/$1.csr"; }
sign() { # name, file, first day, last day
    request "$1"
    openssl ca -batch -notext -config "$work/ca.cnf" -cert ca.pem -keyfile "$work/ca.key" -in "$work/$1.csr" \
        -out "$2.pem" -startdate "$3" -enddate "$4"
}
sign good.tls.test good 20200101000000Z 21200101000000Z
sign expired.tls.test expired 20200101000000Z 20210101000000Z
sign another.tls.test wrong 20200101000000Z 21200101000000Z
request self-signed.tls.test
openssl ca -batch -notext -config "$work/ca.cnf" -selfsign -keyfile key.pem -in "$work/self-signed.tls.test.csr" \
    -out self-signed.pem -startdate 20200101000000Z -enddate 21200101000000Z
