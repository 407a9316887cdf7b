"""MIME types: those of pages, and those that the extension in a URL's path stands for.

Promises: the MIME types that the extension of a URL's last path segment can stand for, so that a collection of pages
can record a link to a photo or a film without fetching it. Doubtful extensions give no type: names served by programs
(.html, .php, .cgi), feeds and sitemaps (.xml, .rss), extensions that are also top-level domains (/example.com, .app,
.ai, .sh), wiki pages (`File:Foo.jpg`) and source browsers (`/blob/main/logo.png`), which show a page about the file.
Knows nothing of the type that a server really sends, and decodes no escapes: a canonical URL has no needless ones.
"""

XHTML_TYPES = frozenset({"application/xhtml+xml", "application/vnd.wap.xhtml+xml"})
HTML_TYPES = XHTML_TYPES | {"text/html"}
PLAIN_TYPES = frozenset({"text/plain"})

_OOXML = "application/vnd.openxmlformats-officedocument"
_ODF = "application/vnd.oasis.opendocument"
_BYTES = "application/octet-stream"

# The first type is the registered one; servers also send the others.
TYPES: dict[str, tuple[str, ...]] = {
    extension: tuple(types.split())
    for extensions, types in (
        # images
        ("jpg jpeg jpe jfif", "image/jpeg image/pjpeg"),
        ("png", "image/png"),
        ("gif", "image/gif"),
        ("webp", "image/webp"),
        ("avif", "image/avif"),
        ("heic", "image/heic image/heif"),
        ("jxl", "image/jxl"),
        ("bmp", "image/bmp image/x-ms-bmp"),
        ("tif tiff", "image/tiff"),
        ("ico", "image/vnd.microsoft.icon image/x-icon"),
        ("svg", "image/svg+xml"),
        ("svgz", "image/svg+xml application/gzip"),
        ("psd", f"image/vnd.adobe.photoshop {_BYTES}"),
        ("eps", f"application/postscript {_BYTES}"),
        ("djvu djv", "image/vnd.djvu image/x-djvu"),
        ("jp2", "image/jp2"),
        ("dwg", f"image/vnd.dwg application/acad {_BYTES}"),
        ("dxf", f"image/vnd.dxf {_BYTES}"),
        ("cr2 nef dng", f"image/x-raw {_BYTES}"),
        # audio
        ("mp3", "audio/mpeg audio/mp3"),
        ("m4a", "audio/mp4 audio/x-m4a"),
        ("aac", "audio/aac"),
        ("oga opus", "audio/ogg"),
        ("ogg", "audio/ogg video/ogg application/ogg"),
        ("wav", "audio/wav audio/x-wav audio/vnd.wave"),
        ("flac", "audio/flac audio/x-flac"),
        ("wma", "audio/x-ms-wma"),
        ("aif aiff", "audio/aiff audio/x-aiff"),
        ("mid midi", "audio/midi audio/x-midi"),
        ("amr", "audio/amr"),
        ("m3u", "audio/x-mpegurl audio/mpegurl application/x-mpegurl"),
        ("pls", "audio/x-scpls"),
        # video
        ("mp4 m4v mp4v", "video/mp4 video/x-m4v application/mp4"),
        ("webm", "video/webm audio/webm"),
        ("ogv", "video/ogg"),
        ("avi", "video/x-msvideo video/avi"),
        ("mov qt", "video/quicktime"),
        ("mpg mpeg mpe", "video/mpeg"),
        ("mkv", "video/x-matroska"),
        ("wmv", "video/x-ms-wmv"),
        ("flv f4v", "video/x-flv video/mp4"),
        ("3gp 3g2", "video/3gpp video/3gpp2 audio/3gpp"),
        ("m3u8", "application/vnd.apple.mpegurl application/x-mpegurl"),
        ("mpd", "application/dash+xml"),
        ("m4s", "video/iso.segment video/mp4 audio/mp4"),
        ("vob", f"video/mpeg {_BYTES}"),
        ("swf", "application/x-shockwave-flash"),
        ("vtt", "text/vtt"),
        ("srt", f"application/x-subrip text/plain {_BYTES}"),
        # archives and images of disks
        ("zip", f"application/zip application/x-zip-compressed {_BYTES}"),
        ("gz", f"application/gzip application/x-gzip {_BYTES}"),
        ("tgz", f"application/gzip application/x-gzip application/x-compressed-tar {_BYTES}"),
        ("tar", f"application/x-tar {_BYTES}"),
        ("bz2 tbz tbz2", f"application/x-bzip2 application/x-bzip {_BYTES}"),
        ("xz txz", f"application/x-xz {_BYTES}"),
        ("zst", f"application/zstd {_BYTES}"),
        ("lz4 lzma lzh lha arj", _BYTES),
        ("7z", f"application/x-7z-compressed {_BYTES}"),
        ("rar", f"application/vnd.rar application/x-rar-compressed application/x-rar {_BYTES}"),
        ("iso img vmdk vdi qcow2", f"application/x-iso9660-image {_BYTES}"),
        ("dmg", f"application/x-apple-diskimage {_BYTES}"),
        ("warc", f"application/warc {_BYTES}"),
        ("torrent", "application/x-bittorrent"),
        # programs and packages
        ("exe", f"application/vnd.microsoft.portable-executable application/x-msdownload {_BYTES}"),
        ("dll", f"application/x-msdownload {_BYTES}"),
        ("msi", f"application/x-msi application/x-msdownload {_BYTES}"),
        ("apk xapk", f"application/vnd.android.package-archive {_BYTES}"),
        ("ipa", _BYTES),
        ("deb", f"application/vnd.debian.binary-package application/x-debian-package {_BYTES}"),
        ("rpm", f"application/x-rpm {_BYTES}"),
        ("jar", f"application/java-archive {_BYTES}"),
        ("whl egg", f"application/zip {_BYTES}"),
        ("wasm", "application/wasm"),
        ("bin", _BYTES),
        ("appimage flatpakref snap", _BYTES),
        # fonts
        ("woff", "font/woff application/font-woff"),
        ("woff2", "font/woff2 application/font-woff2"),
        ("ttf", "font/ttf application/x-font-ttf"),
        ("otf", "font/otf application/x-font-otf"),
        ("eot", "application/vnd.ms-fontobject"),
        # parts of pages
        ("css", "text/css"),
        ("js mjs", "text/javascript application/javascript application/x-javascript"),
        ("map webmanifest", "application/json application/manifest+json application/octet-stream"),
        ("json", "application/json"),
        ("geojson", "application/geo+json application/json"),
        ("scss less", "text/css text/plain"),
        # documents
        ("pdf", "application/pdf application/x-pdf"),
        ("doc", f"application/msword application/rtf {_BYTES}"),
        ("xls", f"application/vnd.ms-excel {_BYTES}"),
        ("ppt pps", f"application/vnd.ms-powerpoint {_BYTES}"),
        ("docx", f"{_OOXML}.wordprocessingml.document application/msword"),
        ("dotx", f"{_OOXML}.wordprocessingml.template"),
        ("docm", "application/vnd.ms-word.document.macroenabled.12"),
        ("xlsx", f"{_OOXML}.spreadsheetml.sheet application/vnd.ms-excel"),
        ("xlsm", "application/vnd.ms-excel.sheet.macroenabled.12"),
        ("xlsb", "application/vnd.ms-excel.sheet.binary.macroenabled.12"),
        ("pptx", f"{_OOXML}.presentationml.presentation application/vnd.ms-powerpoint"),
        ("ppsx", f"{_OOXML}.presentationml.slideshow"),
        ("pptm", "application/vnd.ms-powerpoint.presentation.macroenabled.12"),
        ("odt", f"{_ODF}.text"),
        ("ods", f"{_ODF}.spreadsheet"),
        ("odp", f"{_ODF}.presentation"),
        ("odg", f"{_ODF}.graphics"),
        ("ott", f"{_ODF}.text-template"),
        ("rtf", "application/rtf text/rtf"),
        ("epub", "application/epub+zip"),
        ("mobi azw3", f"application/x-mobipocket-ebook {_BYTES}"),
        ("txt", "text/plain"),
        ("csv", "text/csv text/plain application/csv application/vnd.ms-excel"),
        ("tsv", "text/tab-separated-values text/plain"),
        ("parquet sqlite dbf mdb accdb", _BYTES),
        ("ics", "text/calendar"),
        ("vcf", "text/vcard text/x-vcard"),
        ("bib", "application/x-bibtex text/x-bibtex text/plain"),
        ("ris", "application/x-research-info-systems text/plain"),
        ("kml", "application/vnd.google-earth.kml+xml"),
        ("kmz", "application/vnd.google-earth.kmz"),
        ("gpx", "application/gpx+xml"),
        ("shp shx", f"application/vnd.shp {_BYTES}"),
        ("p7s", "application/pkcs7-signature"),
        (
            "crt cer pem der p12 pfx",
            f"application/x-x509-ca-cert application/pkix-cert application/x-pem-file {_BYTES}",
        ),
        ("crl", "application/pkix-crl"),
    )
    for extension in extensions.split()
}

EXTENSION_LENGTH_MAX = max(map(len, TYPES))

_SCHEME_LENGTH = len("https://")


def mime_types_of(url: str) -> tuple[str, ...]:
    """The types that a canonical URL's extension stands for; empty if there is no telling extension.

    Links are many: nine of ten names have no telling extension, and those are dismissed with the least work.
    """
    end = url.find("?")
    if end < 0:
        end = len(url)
    dot = url.rfind(".", end - EXTENSION_LENGTH_MAX - 1, end)
    types = TYPES.get(url[dot + 1 : end].lower(), ()) if dot > 0 else ()
    if not types:
        return ()
    begin = url.find("/", _SCHEME_LENGTH)
    if not 0 < begin <= url.rfind("/", 0, dot) < dot - 1:  # a host name, or an empty file name
        return ()
    is_about = url.rfind(":", begin, dot) > 0 or url.find("%3A", begin, dot) > 0 or "/wiki/" in url or "/blob/" in url
    return () if is_about else types
