package description

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindRelease_withoutVersion(t *testing.T) {
	site := &Site{}
	_, err := site.FindRelease("", "x86_64", "")
	require.ErrorContains(t, err, "clusters and infra-envs need one, also with a live ISO")
	site.Releases = []Release{{OpenshiftVersion: "4.19.3", CPUArchitecture: "x86_64"}}
	_, err = site.FindRelease("", "x86_64", "")
	require.EqualError(t, err, "openshift_version is missing, and no release for x86_64 is the default; name a "+
		"version, or make a release the default. The site has 4.19.3 (x86_64).")
	site.Releases[0].Default = true
	release, err := site.FindRelease("", "x86_64", "")
	require.NoError(t, err)
	require.Equal(t, "4.19.3", release.OpenshiftVersion)
}
