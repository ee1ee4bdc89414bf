#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deb.sh BUILD OUT: makes Debian packages of a build that was configured for the prefix /usr.
#   libtenon0      the libraries
#   libtenon-dev   headers, pkg-config and CMake files, the static library, documents
#   tenon-plugins  the devices
#   tenon-tools    the command, its manual pages and completions
set -euo pipefail
build=$(realpath "$1") out=$(realpath -m "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work/all meson install -C "$build" --no-rebuild --quiet --strip >"$work/log" 2>&1 || { cat "$work/log" >&2 && exit 1; }
version=$(sed -n 's/^Version: //p' "$build/meson-private/tenon.pc")
architecture=$(dpkg --print-architecture)
maintainer=${DEBEMAIL:-The Tenon developers <tenon@localhost>}
cd "$work/all"
libdir=$(dirname "$(find usr/lib -name libtenon.so)")
# A package is never moved, and paths from the file's own place confuse builds for other architectures.
sed -i 's|^prefix=.*|prefix=/usr|' "$libdir"/pkgconfig/*.pc
# Debian's shells look for the completions of packages here.
mkdir -p usr/share/zsh
mv usr/share/zsh/site-functions usr/share/zsh/vendor-completions
find usr/share/man -type f -exec gzip -9n {} +

# move PACKAGE PATH...: from the whole tree into that of a package.
move() {
  local package=$1 path
  shift
  for path in "$@"; do
    mkdir -p "$work/$package/$(dirname "$path")"
    mv "$path" "$work/$package/$path"
  done
}
move libtenon0 "$libdir"/libtenon*.so.0*
move tenon-plugins "$libdir/tenon"
move libtenon-dev usr/include "$libdir"/libtenon* "$libdir/pkgconfig" "$libdir/cmake" usr/share/doc
move tenon-tools usr/bin usr/libexec usr/share/*
rest=$(find . -type f)
[ -z "$rest" ] || { echo "deb.sh: in no package: $rest" >&2 && exit 1; }

# libraries_of PACKAGE: the Debian packages whose libraries its programs need, and the packages made here.
libraries_of() {
  local files
  mapfile -t files < <(find "$work/$1" -type f \( -name '*.so*' -o -path '*/bin/*' -o -path '*/libexec/*' \) ! -name '*.json')
  (cd "$work" && mkdir -p debian && printf 'Source: tenon\n\nPackage: %s\nArchitecture: any\n' "$1" >debian/control &&
    dpkg-shlibdeps -O --ignore-missing-info -l"$work/libtenon0/$libdir" "${files[@]}" 2>/dev/null) | sed 's/^shlibs:Depends=//'
}

# pack PACKAGE SECTION DEPENDS RECOMMENDS SUMMARY DESCRIPTION
pack() {
  local package=$1 section=$2 depends=$3 recommends=$4 summary=$5 description=$6 tree=$work/$1
  mkdir -p "$tree/DEBIAN" "$tree/usr/share/doc/$package"
  printf 'Files: *\nLicense: Apache-2.0\n On Debian systems it is in /usr/share/common-licenses/Apache-2.0.\n' >"$tree/usr/share/doc/$package/copyright"
  {
    printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMulti-Arch: %s\nMaintainer: %s\nSection: %s\nPriority: optional\n' \
      "$package" "$version" "$architecture" "$([ "$package" = tenon-tools ] && echo foreign || echo same)" "$maintainer" "$section"
    printf 'Installed-Size: %s\n' "$(du -sk --apparent-size "$tree/usr" | cut -f1)"
    [ -z "$depends" ] || printf 'Depends: %s\n' "$depends"
    [ -z "$recommends" ] || printf 'Recommends: %s\n' "$recommends"
    printf 'Description: %s\n %s\n' "$summary" "$description"
  } >"$tree/DEBIAN/control"
  [ "$package" != libtenon0 ] || echo "activate-noawait ldconfig" >"$tree/DEBIAN/triggers"
  dpkg-deb --root-owner-group --build "$tree" "$out/${package}_${version}_$architecture.deb" >/dev/null
  echo "$out/${package}_${version}_$architecture.deb"
}
mkdir -p "$out"
pack libtenon0 libs "$(libraries_of libtenon0)" "tenon-plugins (= $version)" "tensor and autograd runtime with device plugins" \
  "The libraries that programs load: the runtime, and modules and optimisers."
pack tenon-plugins libs "libtenon0 (= $version), $(libraries_of tenon-plugins)" "libopenblas0-openmp, libdnnl2" \
  "devices of the Tenon tensor runtime" "The processor, OpenCL, and layers that watch and record the calls of plugins."
pack libtenon-dev libdevel "libtenon0 (= $version), libcjson-dev" "" "development files of the Tenon tensor runtime" \
  "Headers, pkg-config and CMake files, the static library and the documents."
pack tenon-tools devel "libtenon0 (= $version), $(libraries_of tenon-tools)" "tenon-plugins (= $version)" "the command of the Tenon tensor runtime" \
  "Lists devices and operators, checks plugins, replays recordings, and writes plugins to begin with."
