package osimage

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"landfall/isogen"
)

// identify reads the OpenShift version and the architecture of an image out of its content. What is
// stated wins where the content does not tell, and is refused where it contradicts.
func identify(base *isogen.Base, version, arch string) (gotVersion, gotArch string, err error) {
	gotArch = base.Architecture()
	switch {
	case arch != "" && gotArch != rpmArchitecture(arch):
		return "", "",
			fmt.Errorf("the image %s is for %s, stated is %s; state the right architecture, or name the right file",
				base.VolumeID(), orUnknown(gotArch), rpmArchitecture(arch))
	case gotArch == "":
		return "", "",
			fmt.Errorf("the image %s does not tell which architecture it is for; use the live ISO of a CoreOS release",
				base.VolumeID())
	}
	gotVersion, err = versionOf(base.VolumeID(), version)
	return gotVersion, gotArch, err
}

func orUnknown(arch string) string {
	if arch == "" {
		return "an unknown architecture"
	}
	return arch
}

// Volume ids say the OpenShift minor version in their first number up to 4.18
// (rhcos-418.94.202501221327-0); from 4.19 on they have the version of RHEL in its place
// (rhcos-9.6.20250523-0), which several minor versions share. See data/default_os_images.json of
// openshift/assisted-service.
var (
	minorInVolume = regexp.MustCompile(`^(?:rhcos|scos)-4(\d{1,2})\.\d`)
	rhelInVolume  = regexp.MustCompile(`^(?:rhcos|scos)-(?:9|1\d)\.\d`)
)

const firstWithRHELVersion = 19

// versionOf is the OpenShift version that an image with a volume id is for.
func versionOf(volumeID, stated string) (string, error) {
	if m := minorInVolume.FindStringSubmatch(volumeID); m != nil {
		minor := "4." + m[1]
		if stated != "" && Minor(stated) != minor {
			return "", fmt.Errorf("the image %s is for OpenShift %s, stated is %s; state %s, or name the right file",
				volumeID, minor, stated, minor)
		}
		return orText(stated, minor), nil
	}
	if stated == "" {
		return "",
			fmt.Errorf("the image %s does not tell which OpenShift it is for; state it, as in --openshift-version 4.20",
				volumeID)
	}
	if major, minor, ok := strings.Cut(Minor(stated), "."); ok && major == "4" && rhelInVolume.MatchString(volumeID) {
		if n, err := strconv.Atoi(minor); err == nil && n < firstWithRHELVersion {
			return "",
				fmt.Errorf("the image %s is for OpenShift 4.%d or newer, stated is %s; state the right version, or "+
					"name the right file", volumeID, firstWithRHELVersion, stated)
		}
	}
	return stated, nil
}

// Minor is a version's first two numbers.
func Minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

var (
	versionForm = regexp.MustCompile(`^\d+\.\d+(\.\d+(-[0-9A-Za-z.-]+)?)?$`)
	sumForm     = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
)

// checkStated says what is wrong with what is stated of an image before anything of it arrives.
func checkStated(version, arch, sum string) error {
	switch {
	case version != "" && !versionForm.MatchString(version):
		return &RequestError{fmt.Sprintf("openshift_version is %q; expected a version such as 4.20 or 4.20.8", version)}
	case sum != "" && !sumForm.MatchString(sum):
		return &RequestError{fmt.Sprintf("sha256 is %q; expected 64 hexadecimal digits", sum)}
	}
	switch rpmArchitecture(arch) {
	case "", isogen.X86_64, isogen.AArch64, isogen.PPC64LE, isogen.S390X:
		return nil
	}
	return &RequestError{fmt.Sprintf("cpu_architecture is %q; expected one of x86_64, aarch64, ppc64le, s390x", arch)}
}

// rpmArchitecture is an architecture's name in images and payloads.
func rpmArchitecture(name string) string {
	switch name {
	case "arm64":
		return isogen.AArch64
	case "amd64":
		return isogen.X86_64
	}
	return name
}

func orText(text, other string) string {
	if text != "" {
		return text
	}
	return other
}
