package osimage

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"landfall/appliance/architecture"
	"landfall/isogen"
)

// identify reads the OpenShift version and the architecture of an image from its content. If the
// content does not contain the version, it returns the stated version. If the content contradicts a
// stated value, it returns an error.
func identify(base *isogen.Base, version, arch string) (gotVersion, gotArch string, err error) {
	gotArch = base.Architecture()
	switch {
	case arch != "" && gotArch != architecture.Of(arch).RPM():
		return "", "",
			fmt.Errorf("the image %s is for %s, not for %s; correct the architecture, or send the right file",
				base.VolumeID(), orUnknown(gotArch), architecture.Of(arch).RPM())
	case gotArch == "":
		return "", "",
			fmt.Errorf("the image %s does not contain its architecture; use the live ISO of a CoreOS release",
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

// Up to OpenShift 4.18, the first number of a volume id is the OpenShift minor version
// (rhcos-418.94.202501221327-0). From 4.19 on it is the version of RHEL (rhcos-9.6.20250523-0),
// which several minor versions share. See data/default_os_images.json of
// openshift/assisted-service.
var (
	minorInVolume = regexp.MustCompile(`^(?:rhcos|scos)-4(\d{1,2})\.\d`)
	rhelInVolume  = regexp.MustCompile(`^(?:rhcos|scos)-(?:9|1\d)\.\d`)
)

const firstWithRHELVersion = 19

// versionOf returns the OpenShift version of an image from its volume ID.
func versionOf(volumeID, stated string) (string, error) {
	if m := minorInVolume.FindStringSubmatch(volumeID); m != nil {
		minor := "4." + m[1]
		if stated != "" && Minor(stated) != minor {
			return "",
				fmt.Errorf("the image %s is for OpenShift %s, not for %s; use the version %s, or send the right file",
					volumeID, minor, stated, minor)
		}
		return cmp.Or(stated, minor), nil
	}
	if stated == "" {
		return "",
			fmt.Errorf("the image %s does not contain its OpenShift version; state the version, as in "+
				"--openshift-version 4.20",
				volumeID)
	}
	if major, minor, ok := strings.Cut(Minor(stated), "."); ok && major == "4" && rhelInVolume.MatchString(volumeID) {
		if n, err := strconv.Atoi(minor); err == nil && n < firstWithRHELVersion {
			return "",
				fmt.Errorf("the image %s is for OpenShift 4.%d or newer, not for %s; correct the version, or send "+
					"the right file", volumeID, firstWithRHELVersion, stated)
		}
	}
	return stated, nil
}

// Minor returns the first two numbers of a version.
func Minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

var (
	versionForm = regexp.MustCompile(`^\d+\.\d+(\.\d+(-[0-9A-Za-z.-]+)?)?$`)
	sumForm     = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
)

// checkStated validates the stated values of an image before the transfer.
func checkStated(version, arch, sum string) error {
	switch {
	case version != "" && !versionForm.MatchString(version):
		return &RequestError{fmt.Sprintf("openshift_version is %q; expected a version such as 4.20 or 4.20.8", version)}
	case sum != "" && !sumForm.MatchString(sum):
		return &RequestError{fmt.Sprintf("sha256 is %q; expected 64 hexadecimal digits", sum)}
	}
	switch architecture.Of(arch).RPM() {
	case "", isogen.X86_64, isogen.AArch64, isogen.PPC64LE, isogen.S390X:
		return nil
	}
	return &RequestError{fmt.Sprintf("cpu_architecture is %q; expected one of x86_64, aarch64, ppc64le, s390x", arch)}
}
