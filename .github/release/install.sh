#!/bin/sh
# Installs `ar` and `autoresearch` from a release.
#   sh install.sh
# AR_REPOSITORY   owner and name of the repository at GitHub; the copy in a release knows its own
# AR_VERSION      the release, such as v0.1.0 [default: the newest]
# AR_DOWNLOAD     the address of a folder with the archives, instead of a release
# AR_INSTALL_DIR  the folder for the programs [default: ~/.local/bin]
set -eu

# A release puts its own here.
repository=${AR_REPOSITORY:-@REPOSITORY@}
folder=${AR_INSTALL_DIR:-${HOME:?}/.local/bin}
stage=

fail() {
    printf 'error: %s\n' "$1" >&2
    [ -z "${2-}" ] || printf 'hint: %s\n' "$2" >&2
    exit 1
}

clean_up() {
    [ -z "$stage" ] || rm -rf "$stage"
    rm -f "$folder/.ar.$$" "$folder/.autoresearch.$$"
}

# The build for this machine. The static one, for systems without glibc 2.35, cannot load the library that counts GPUs.
target() {
    case $(uname -s) in
    Linux)
        case $(uname -m) in
        x86_64 | amd64) machine=x86_64 ;;
        aarch64 | arm64) machine=aarch64 ;;
        *) return 1 ;;
        esac
        glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc 2\.\([0-9]*\).*/\1/p')
        if [ "${glibc:-0}" -ge 35 ]; then libc=gnu; else libc=musl; fi
        echo "$machine-unknown-linux-$libc"
        ;;
    Darwin)
        [ "$(uname -m)" = arm64 ] || return 1
        echo aarch64-apple-darwin
        ;;
    *) return 1 ;;
    esac
}

download() {
    if command -v curl >/dev/null; then
        curl -fsSL --retry 3 --output "$2" "$1"
    elif command -v wget >/dev/null; then
        wget -q -O "$2" "$1"
    else
        fail "neither curl nor wget is installed" "install one of them"
    fi
}

sum_of() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$1"
    elif command -v shasum >/dev/null; then
        shasum -a 256 "$1"
    else
        fail "neither sha256sum nor shasum is installed" "install coreutils"
    fi | cut -d ' ' -f 1
}

is_ours() {
    case $("$1" --version 2>/dev/null) in
    'ar (autoresearch) '*) ;;
    *) return 1 ;;
    esac
}

# Replaces each program at once, so that an interruption leaves the old or the new one.
place() {
    mkdir -p "$folder" || fail "cannot create $folder" "name another folder: AR_INSTALL_DIR=/path sh install.sh"
    for program in ar autoresearch; do
        cp "$1/$program" "$folder/.$program.$$" || fail "cannot write to $folder" "name another folder: AR_INSTALL_DIR=/path sh install.sh"
        chmod 755 "$folder/.$program.$$"
    done
    mv -f "$folder/.ar.$$" "$folder/ar"
    mv -f "$folder/.autoresearch.$$" "$folder/autoresearch"
}

# Says under which name the program answers.
advise() {
    case ":$PATH:" in
    *":$folder:"*) ;;
    *) echo "next: add $folder to the PATH, as in: export PATH=\"$folder:\$PATH\"" ;;
    esac
    first=$(PATH="$PATH:$folder" command -v ar)
    if [ "$first" != "$folder/ar" ] && ! is_ours "$first"; then
        echo "note: \`ar\` is the archiver $first here; type \`autoresearch\`, or put $folder first on the PATH"
    fi
}

main() {
    target=$(target) || fail "there is no build for $(uname -s) on $(uname -m)" "with Rust: cargo install ar-autoresearch"
    if [ -n "${AR_DOWNLOAD-}" ]; then
        from=$AR_DOWNLOAD
    else
        case $repository in
        */*) ;;
        *) fail "no repository to download from" "name it: AR_REPOSITORY=OWNER/NAME sh install.sh" ;;
        esac
        case ${AR_VERSION-} in
        '') from=https://github.com/$repository/releases/latest/download ;;
        *) from=https://github.com/$repository/releases/download/$AR_VERSION ;;
        esac
    fi
    if [ -e "$folder/ar" ] && ! is_ours "$folder/ar"; then
        fail "$folder/ar is another program" "name another folder: AR_INSTALL_DIR=/path sh install.sh"
    fi
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    stage=$(mktemp -d)
    archive=ar-autoresearch-$target.tar.gz
    download "$from/$archive.sha256" "$stage/$archive.sha256" || fail "cannot download $from/$archive.sha256"
    download "$from/$archive" "$stage/$archive" || fail "cannot download $from/$archive" "repeat the command"
    wanted=$(cut -d ' ' -f 1 "$stage/$archive.sha256")
    found=$(sum_of "$stage/$archive")
    [ -n "$wanted" ] && [ "$wanted" = "$found" ] ||
        fail "the checksum of $archive is $found, not $wanted; nothing was installed" "repeat the command"
    tar -C "$stage" -xzf "$stage/$archive"
    version=$("$stage/ar-autoresearch-$target/autoresearch" --version) ||
        fail "the program does not start on this machine; nothing was installed" "with Rust: cargo install ar-autoresearch"
    place "$stage/ar-autoresearch-$target"
    echo "installed $(echo "$version" | head -n 1) as ar and autoresearch in $folder"
    advise
}

# At the end, so that half of this script does nothing.
main
