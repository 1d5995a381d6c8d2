#!/usr/bin/env bats
# life.bats: the Debian package of the plug-in is installed, upgraded, downgraded, removed and purged by dpkg while Slurm
# runs, and Slurm works at every step of that. The package has debian/'s maintainer scripts and hvd.conf, and this build's
# plug-in. It lives in layers over /usr, /etc and dpkg's records that only the cluster sees, and that end with it.
# shellcheck disable=SC2016

bats_require_minimum_version 1.5.0
load ../cluster/helpers

LINE=/etc/slurm/plugstack.conf.d/hvd.conf

why_no_life() {
    if [ ! -e "$HVD_SOURCE/debian/slurm-plugin-hvd.postinst" ]; then
        echo 'debian/ is not part of this source archive'
    elif ! dpkg -S /etc/slurm/plugstack.conf.d >/dev/null 2>&1; then
        echo "it needs dpkg, and Debian's Slurm"
    elif ! unshare --mount --propagation private sh -euc "$layers" sh true 2>/dev/null; then
        echo 'this root may not mount layers over /usr, /etc and /var/lib/dpkg'
    fi
}

layers='mount -t tmpfs layers /mnt
for folder in usr etc var/lib/dpkg; do
    mkdir -p /mnt/over/$folder /mnt/work/$folder
    mount -t overlay -o lowerdir=/$folder,upperdir=/mnt/over/$folder,workdir=/mnt/work/$folder layer /$folder
done
exec "$@"'

# start_over_layers: what cluster.sh starts sees the layers
start_over_layers() {
    local cluster_sh=$CLUSTER_SH
    CLUSTER_SH=$BATS_FILE_TMPDIR/cluster.sh
    printf '#!/bin/bash\n[ "$1" = start ] || exec %q "$@"\nexec unshare --mount --propagation private sh -euc %q sh %q "$@"\n' \
        "$cluster_sh" "$layers" "$cluster_sh" >"$CLUSTER_SH"
    chmod +x "$CLUSTER_SH"
    cluster_start
}

setup_file() {
    export CLUSTER_WHY_NOT
    CLUSTER_WHY_NOT=$(cluster_why_not)
    CLUSTER_WHY_NOT=${CLUSTER_WHY_NOT:-$(why_no_life)}
    [ -z "$CLUSTER_WHY_NOT" ] || return 0
    start_over_layers
    echo 'include /etc/slurm/plugstack.conf.d/*.conf' >"$CLUSTER/plugstack.conf"
    # what the maintainer scripts call: does Slurm work now?
    printf '%s\n' '#!/bin/sh' 'said=$(srun -Q -N3 true 2>&1) && [ -z "$said" ] && said=works' 'echo "$*: $said" >>"$0".log' >"$CLUSTER/look"
    chmod +x "$CLUSTER/look"
    package 1.0
    package 2.0
}

setup() {
    [ -z "$CLUSTER_WHY_NOT" ] || skip "$CLUSTER_WHY_NOT"
    rm -f "$CLUSTER/look.log"
}

# package VERSION: build it; each of its scripts looks at Slurm before and after what it does
package() {
    local root=$BATS_FILE_TMPDIR/$1 folder script
    folder=$(dpkg -L slurm-wlm-basic-plugins | grep -m1 '/slurm-wlm$')
    mkdir -p "$root/DEBIAN" "$root$folder" "$root/usr/share/slurm-plugin-hvd"
    cp "$PLUGIN" "$root$folder/"
    sed "s|@DIR@|$folder|" "$HVD_SOURCE/debian/hvd.conf" >"$root/usr/share/slurm-plugin-hvd/hvd.conf"
    printf '%s\n' 'Package: slurm-plugin-hvd' "Version: $1" "Architecture: $(dpkg --print-architecture)" \
        'Maintainer: The test <test@example.org>' 'Description: the plug-in' >"$root/DEBIAN/control"
    for script in preinst postinst prerm postrm; do
        echo '#!/bin/sh' >"$root/DEBIAN/$script"
        echo "$CLUSTER/look before $script \"\$@\"" >>"$root/DEBIAN/$script"
        [ ! -e "$HVD_SOURCE/debian/slurm-plugin-hvd.$script" ] ||
            cat "$HVD_SOURCE/debian/slurm-plugin-hvd.$script" >>"$root/DEBIAN/$script"
        echo "$CLUSTER/look after $script \"\$@\"" >>"$root/DEBIAN/$script"
        chmod 755 "$root/DEBIAN/$script"
    done
    dpkg-deb --root-owner-group --build "$root" "$CLUSTER/$1.deb" >/dev/null
}

dpkg_in() {
    run login_in 60 dpkg --log=/dev/null "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

# worked STEP...: each of these calls of a maintainer script was made, and Slurm worked before and after each call
worked() {
    local step
    cat "$CLUSTER/look.log"
    for step; do
        grep -q "^after $step.*: works$" "$CLUSTER/look.log"
    done
    [ "$(grep -vc ': works$' "$CLUSTER/look.log")" -eq 0 ]
    rm "$CLUSTER/look.log"
}

# HVD_SITE has what follows the plug-in's name, so the line is in force
expect_site() {
    run srun_in 20 -Q -N3 --hvd-lease=9s sh -c 'echo "$HVD_SITE/$HVD_CLI"'
    echo "$output"
    [ "$(grep -cxF "$1/lease=9s" <<<"$output")" -eq 3 ]
    [ "${#lines[@]}" -eq 3 ]
}

@test "install, upgrade, downgrade, remove and install again keep the site's arguments, and Slurm works at every step" {
    dpkg_in -i "$CLUSTER/1.0.deb"
    worked 'postinst configure'
    expect_site ''
    login_in 5 sed -i 's/hvd.so$/hvd.so fusion=8M/' $LINE
    dpkg_in -i "$CLUSTER/2.0.deb"
    worked 'prerm upgrade' 'preinst upgrade' 'postrm upgrade' 'postinst configure'
    expect_site fusion=8M
    dpkg_in -i --force-downgrade "$CLUSTER/1.0.deb"
    worked 'prerm upgrade' 'postinst configure'
    expect_site fusion=8M
    dpkg_in -r slurm-plugin-hvd
    worked 'prerm remove' 'postrm remove'
    run srun_in 10 --hvd-lease=9s true
    [[ $output == *"unrecognized option '--hvd-lease=9s'"* ]]
    dpkg_in -i "$CLUSTER/2.0.deb"
    worked 'postinst configure'
    expect_site fusion=8M
    dpkg_in -i "$CLUSTER/2.0.deb"
    expect_site fusion=8M
}

@test "purge leaves nothing, and the next installation begins anew" {
    dpkg_in -i "$CLUSTER/1.0.deb"
    login_in 5 sed -i 's/hvd.so$/hvd.so fusion=8M/' $LINE
    dpkg_in -P slurm-plugin-hvd
    worked 'prerm remove' 'postrm remove' 'postrm purge'
    [ -z "$(login_in 5 sh -c 'find /etc /usr/share/slurm* /usr/lib/*/slurm* -name "*hvd*"')" ]
    dpkg_in -i "$CLUSTER/2.0.deb"
    expect_site ''
}

@test "a line that the administrator has deleted stays so, and one elsewhere is told at removal" {
    dpkg_in -i "$CLUSTER/1.0.deb"
    login_in 5 sh -c 'mv "$1" "${1%/*}/site.conf"' sh $LINE
    dpkg_in -i "$CLUSTER/2.0.deb"
    worked 'postinst configure'
    run login_in 5 ls $LINE
    [ "$status" -ne 0 ]
    dpkg_in -r slurm-plugin-hvd
    expect_text "$output" 'slurm-plugin-hvd: /etc/slurm/plugstack.conf.d/site.conf still names spank_hvd.so; take that line out'
    login_in 5 rm /etc/slurm/plugstack.conf.d/site.conf
}
