package appliance_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate"
	"landfall/isogen/skeleton"
	"landfall/porttest"
)

// imageOf creates an infra-env and returns the URL of its discovery image.
func (s *site) imageOf(t *testing.T, address string) string {
	t.Helper()
	var created struct {
		URL string `json:"download_url"`
	}
	call(t, http.MethodPost, address+apiPath+"/infra-envs", s.newInfraEnv("east")).read(t, http.StatusCreated, &created)
	return created.URL
}

// replaceISO replaces the site's live ISO by renaming another file, like mv.
func (s *site) replaceISO(t *testing.T, content []byte) {
	t.Helper()
	path := s.config.OSImages[0].Path
	require.NoError(t, os.WriteFile(path+".new", content, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func TestLiveISO_unusableIsNamedAndReplaced(t *testing.T) {
	made := func(iso skeleton.ISO) []byte {
		var file bytes.Buffer
		require.NoError(t, skeleton.Write(&file, iso))
		return file.Bytes()
	}
	good := made(skeleton.ISO{})
	for name, wrong := range map[string]struct {
		content  []byte
		contains []string
	}{
		"no ISO": {bytes.Repeat([]byte("qcow2"), 20_000), []string{"not an ISO 9660 image",
			"give the path of a CoreOS live ISO"}},
		"empty":                {nil, []string{"not an ISO 9660 image", "give the path of a CoreOS live ISO"}},
		"truncated":            {good[:len(good)-100_000], []string{"the copy is incomplete, download it again"}},
		"another architecture": {made(skeleton.ISO{Architecture: "aarch64"}), []string{"is for aarch64", "x86_64"}},
		"no embed area": {made(skeleton.ISO{Replace: map[string][]byte{"coreos/igninfo.json": nil,
			"images/ignition.img": nil}}), []string{"no Ignition embed area", "use the live ISO of a CoreOS release"}},
		"a wrong embed area": {made(skeleton.ISO{Replace: map[string][]byte{
			"coreos/igninfo.json": []byte(`{"file":"images/nowhere.img"}`)}}),
			[]string{`the ISO has no file "images/nowhere.img"`}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.config.OSImages[0].SHA256 = "" // without a digest the configuration accepts the other file
			s.replaceISO(t, wrong.content)
			address, _ := s.start(t)
			image := s.imageOf(t, address)

			got := call(t, http.MethodGet, image, nil)
			require.Contains(t, got.reason(t), s.config.OSImages[0].Path)
			requireRefusal(t, got, http.StatusServiceUnavailable, wrong.contains...)
			requireRefusal(t, call(t, http.MethodGet, image+".sha256", nil), http.StatusServiceUnavailable,
				wrong.contains...)

			var status struct {
				OSImages []struct{ State, Message string } `json:"os_images"`
			}
			call(t, http.MethodGet, address+"/api/landfall/v1/status", nil).read(t, http.StatusOK, &status)
			require.Equal(t, "failed", status.OSImages[0].State)
			requireSentence(t, status.OSImages[0].Message, wrong.contains...)
			s.replaceISO(t, good)
			requireDiscoveryISO(t, image)
		})
	}
}

func TestLiveISO_missingIsReportedAndRestored(t *testing.T) {
	s := newSite(t)
	path := s.config.OSImages[0].Path
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	address, _ := s.start(t)
	image := s.imageOf(t, address)
	requireRefusal(t, call(t, http.MethodGet, image, nil), http.StatusServiceUnavailable, path, "no such file",
		"check the path and its permissions")

	s.replaceISO(t, good)
	requireDiscoveryISO(t, image)

	// an unfinished copy over the file in use
	require.NoError(t, os.WriteFile(path, good[:len(good)/2], 0o600))
	requireRefusal(t, call(t, http.MethodGet, image, nil), http.StatusServiceUnavailable, path,
		"the copy is incomplete")
	_, listed := fetch(t, address+consolePath+"/os-images", "page", "")
	require.Contains(t, string(listed), `"state":"bad"`)
	require.NoError(t, os.WriteFile(path, good, 0o600))
	requireDiscoveryISO(t, image)
}

func TestLiveISO_missingVersionListsAvailable(t *testing.T) {
	s := newSite(t)
	s.config.OSImages[0].OpenshiftVersion = "4.19"
	address, _ := s.start(t)
	image := s.imageOf(t, address)
	requireRefusal(t, call(t, http.MethodGet, image, nil), http.StatusServiceUnavailable,
		"no OS image matches OpenShift "+s.release.Version+" on x86_64", "the appliance has images for 4.19 (x86_64)",
		"import the live ISO of that release", "os_images")
	_, after, _ := strings.Cut(image, "/byid/")
	id, _, _ := strings.Cut(after, "/")
	for _, script := range []string{"/ipxe/" + id, "/grub/" + id + "/grub.cfg"} {
		requireRefusal(t, call(t, http.MethodGet, address+script, nil), http.StatusServiceUnavailable,
			"no OS image matches OpenShift "+s.release.Version+" on x86_64")
	}
	requireRefusal(t, call(t, http.MethodGet, strings.Replace(image, "/byid/", "/byid/3a930088", 1), nil),
		http.StatusNotFound, "There is no infra-env")
}

func TestLiveISO_unreachableServerIsRetried(t *testing.T) {
	s := newSite(t)
	gone := "http://" + porttest.Reserve(t) + "/live.iso"
	s.config.OSImages[0].Path, s.config.OSImages[0].URL = "", gone
	address, _ := s.start(t)
	image := s.imageOf(t, address)
	eventually(t, "the download fails", func() bool {
		return strings.Contains(call(t, http.MethodGet, image, nil).reason(t), "connection refused")
	})
	requireRefusal(t, call(t, http.MethodGet, image, nil), http.StatusServiceUnavailable, gone, "connection refused",
		"try again later")
}

func TestLiveISO_architectureIsDetected(t *testing.T) {
	s := newSite(t)
	path := filepath.Join(t.TempDir(), "arm.iso")
	sum, err := simulate.WriteBaseISO(path, simulate.BaseISO{Architecture: "aarch64"})
	require.NoError(t, err)
	s.config.OSImages[0].Path, s.config.OSImages[0].SHA256, s.config.OSImages[0].CPUArchitecture = path, sum, "arm64"
	s.config.ReleaseImages[0].CPUArchitecture = "aarch64"
	s.config.Images.Agent = "mirror.site.test/agent:1" // the site's payload is for x86_64
	address, _ := s.start(t)
	var created struct {
		URL string `json:"download_url"`
	}
	call(t, http.MethodPost, address+apiPath+"/infra-envs",
		s.newInfraEnv("arm").with(object{"cpu_architecture": "arm64"})).read(t, http.StatusCreated, &created)
	requireDiscoveryISO(t, created.URL)
}
