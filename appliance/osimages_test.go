package appliance_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/osimage"
	"landfall/isogen/skeleton"
	"landfall/web/console"
)

const consolePath = "/api/landfall/v1"

// liveISO is a live ISO that tells its OpenShift version, 4.18.
func liveISO(t *testing.T) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, skeleton.Write(&file, skeleton.ISO{VolumeID: "rhcos-418.94.202511191518-0"}))
	return file.Bytes()
}

// patch sends bytes of an upload as a browser does.
func patch(t *testing.T, url string, offset int, body io.Reader) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, url, body)
	require.NoError(t, err)
	request.Header.Set("Upload-Offset", strconv.Itoa(offset))
	request.Header.Set("Content-Type", "application/offset+octet-stream")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response, content
}

func osImagesAt(t *testing.T, address string) []osimage.Image {
	t.Helper()
	var list struct {
		OSImages []osimage.Image `json:"os_images"`
	}
	call(t, http.MethodGet, address+consolePath+"/os-images", nil).read(t, http.StatusOK, &list)
	return list.OSImages
}

func announce(t *testing.T, address string, announced object) string {
	t.Helper()
	var up osimage.Upload
	call(t, http.MethodPost, address+consolePath+"/os-images/uploads", announced).read(t, http.StatusCreated, &up)
	return address + consolePath + "/os-images/uploads/" + up.ID
}

func TestOSImages_uploadResumesAfterRestart(t *testing.T) {
	s := newSite(t)
	s.config.OSImages = nil
	address, stop := s.start(t)
	content := liveISO(t)
	sum := sha256.Sum256(content)
	var status console.Status
	call(t, http.MethodGet, address+consolePath+"/status", nil).read(t, http.StatusOK, &status)
	require.Equal(t, "failed", status.Releases[0].State)
	requireSentence(t, status.Releases[0].Message, "no OS image matches OpenShift "+s.release.Version)
	image := s.imageOf(t, address)
	requireRefusal(t, call(t, http.MethodGet, image, nil), http.StatusServiceUnavailable,
		"no OS image matches OpenShift", "the appliance has no OS images", "import the live ISO")

	up := announce(t, address, object{"name": "rhcos-live.iso", "size_bytes": len(content)})
	half := len(content) / 2
	response, _ := patch(t, up, 0, bytes.NewReader(content[:half]))
	require.Equal(t, http.StatusNoContent, response.StatusCode)
	require.Equal(t, strconv.Itoa(half), response.Header.Get("Upload-Offset"))
	stop()

	address, _ = s.start(t)
	up = address + consolePath + "/os-images/uploads/" + filepath.Base(up)
	head, err := http.Head(up)
	require.NoError(t, err)
	require.NoError(t, head.Body.Close())
	require.Equal(t, http.StatusOK, head.StatusCode)
	require.Equal(t, strconv.Itoa(half), head.Header.Get("Upload-Offset"))
	require.Equal(t, strconv.Itoa(len(content)), head.Header.Get("Upload-Length"))
	response, _ = patch(t, up, 0, bytes.NewReader(content))
	require.Equal(t, http.StatusConflict, response.StatusCode)
	require.Equal(t, strconv.Itoa(half), response.Header.Get("Upload-Offset"))
	response, body := patch(t, up, half, bytes.NewReader(content[half:]))
	require.Equal(t, http.StatusOK, response.StatusCode, "%s", body)
	var row osimage.Image
	require.NoError(t, json.Unmarshal(body, &row))
	require.Equal(t, osimage.StateReady, row.State)
	require.Equal(t, hex.EncodeToString(sum[:]), row.SHA256)
	require.Equal(t, "4.18", row.OpenshiftVersion)

	// The site's release has another minor version, so the live ISO needs the version of its own.
	other := liveISOof(t, skeleton.ISO{})
	up = announce(t, address, object{"size_bytes": len(other), "openshift_version": osimage.Minor(s.release.Version)})
	response, body = patch(t, up, 0, bytes.NewReader(other))
	require.Equal(t, http.StatusOK, response.StatusCode, "%s", body)
	require.NoError(t, json.Unmarshal(body, &row))
	requireDiscoveryISO(t, s.imageOf(t, address))
	requireRefusal(t, call(t, http.MethodDelete, address+consolePath+"/os-images/"+row.ID, nil), http.StatusConflict,
		"is in use by the infra-envs east, east; delete them")
	require.Len(t, osImagesAt(t, address), 2)
}

func liveISOof(t *testing.T, iso skeleton.ISO) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, skeleton.Write(&file, iso))
	return file.Bytes()
}

func TestOSImages_listVerifyRemove(t *testing.T) {
	s := newSite(t)
	address, _ := s.start(t)
	content := liveISO(t)
	response, body := patch(t, announce(t, address, object{"size_bytes": len(content)}), 0, bytes.NewReader(content))
	require.Equal(t, http.StatusOK, response.StatusCode, "%s", body)
	list := osImagesAt(t, address)
	require.Len(t, list, 2)
	require.Equal(t, osimage.SourceFile, list[0].Source)
	requireRefusal(t, call(t, http.MethodDelete, address+consolePath+"/os-images/"+list[0].ID, nil),
		http.StatusConflict,
		"remove it from os_images")
	of := address + consolePath + "/os-images/" + list[1].ID
	require.Equal(t, http.StatusAccepted, call(t, http.MethodPost, of+"/verify", nil).status)
	eventually(t, "the image is verified", func() bool {
		return osImagesAt(t, address)[1].State == osimage.StateReady
	})
	require.Equal(t, http.StatusNoContent, call(t, http.MethodDelete, of, nil).status)
	requireRefusal(t, call(t, http.MethodDelete, of, nil), http.StatusNotFound, "does not exist")
	requireRefusal(t, call(t, http.MethodPost, of+"/verify", nil), http.StatusNotFound, "does not exist")
	require.Len(t, osImagesAt(t, address), 1)
}

func TestOSImages_wrongUploadsAreRejected(t *testing.T) {
	s := newSite(t)
	s.config.OSImages = nil // its digests would be stored there
	s.config.Limits.OSImageBytes = 1 << 20
	address, _ := s.start(t)
	uploads := address + consolePath + "/os-images/uploads"
	requireRefusal(t, call(t, http.MethodPost, uploads, object{"size_bytes": 2 << 20}), http.StatusBadRequest,
		"limits.os_image_bytes")
	requireRefusal(t, call(t, http.MethodPost, uploads, object{"size": 5}), http.StatusBadRequest,
		`unknown field "size"`)
	requireRefusal(t, call(t, http.MethodPost, address+consolePath+"/os-images", object{"url": "file:///etc/passwd"}),
		http.StatusBadRequest, "expected an http:// or https:// URL")
	requireRefusal(t, call(t, http.MethodGet, uploads+"/none", nil), http.StatusNotFound,
		"the OS image none does not exist")
	requireRefusal(t, call(t, http.MethodPatch, uploads+"/none", nil), http.StatusBadRequest, "Upload-Offset")

	up := announce(t, address, object{"name": "wrong.iso", "size_bytes": 100_000})
	response, body := patch(t, up, 0, bytes.NewReader(bytes.Repeat([]byte("qcow2"), 20_000)))
	require.Equal(t, http.StatusUnprocessableEntity, response.StatusCode)
	require.Contains(t, string(body), "the base ISO wrong.iso cannot be used")
	requireRefusal(t, call(t, http.MethodGet, up, nil), http.StatusNotFound, "does not exist")

	up = announce(t, address, object{"size_bytes": 100_000})
	require.Equal(t, http.StatusNoContent, call(t, http.MethodDelete, up, nil).status)
	require.Empty(t, files(t, filepath.Join(s.config.DataDir, "os-images")))
}

func TestFullDisk_osImages(t *testing.T) {
	if !withSmallDisks(t) {
		return
	}
	s := newSite(t)
	s.config.OSImages = nil // its digests would be stored there
	images := filepath.Join(s.config.DataDir, "os-images")
	d := smallDisk(t, images, "8m")
	address, _ := s.start(t)
	content := liveISO(t) // larger than 6 MB
	d.fill(t, 1<<20)
	uploads := address + consolePath + "/os-images/uploads"
	if d.limit == nil {
		requireRefusal(t, call(t, http.MethodPost, uploads, object{"size_bytes": len(content)}),
			http.StatusInsufficientStorage,
			"the image needs", "more in "+images, "free space on the file system, then try again")
	}
	d.free(t)
	up := announce(t, address, object{}) // of unknown size, so that no space is reserved
	d.fill(t, 1<<20)
	response, body := patch(t, up, 0, bytes.NewReader(content))
	require.Equal(t, http.StatusInsufficientStorage, response.StatusCode, "%s", body)
	require.Contains(t, string(body), "no space is left in "+images+
		", and the received part of the image was removed; free space on the file system, then try again")
	d.free(t)
	require.Empty(t, files(t, images))
	response, body = patch(t, announce(t, address, object{"size_bytes": len(content)}), 0, bytes.NewReader(content))
	require.Equal(t, http.StatusOK, response.StatusCode, "%s", body)
}

func TestOSImages_fromReleaseInMirror(t *testing.T) {
	s := newSite(t)
	s.config.OSImages = []config.OSImage{{OpenshiftVersion: osimage.Minor(s.release.Version),
		CPUArchitecture: "x86_64", Release: true}}
	secret := filepath.Join(t.TempDir(), "pull-secret.json")
	require.NoError(t, os.WriteFile(secret, []byte(pullSecret), 0o600))
	s.config.Mirror.PullSecret = secret
	address, _ := s.start(t)
	eventually(t, "the live ISO is ready", func() bool { return osImagesAt(t, address)[0].State == osimage.StateReady })
	row := osImagesAt(t, address)[0]
	require.Equal(t, osimage.SourcePayload, row.Source)
	requireDiscoveryISO(t, s.imageOf(t, address))

	got := call(t, http.MethodPost, address+consolePath+"/os-images", object{"release": "4.1.0"})
	require.Equal(t, http.StatusAccepted, got.status)
	eventually(t, "the missing release is reported", func() bool {
		list := osImagesAt(t, address)
		return list[len(list)-1].State == osimage.StateBad
	})
	list := osImagesAt(t, address)
	requireSentence(t, list[1].Message,
		"the site has no release 4.1.0 for x86_64; add the release, or give the pull spec of its "+
			"release image")
}

func TestOSImages_fetchWithMirrorCA(t *testing.T) {
	from := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "live.iso", time.Time{}, bytes.NewReader(liveISO(t)))
	}))
	t.Cleanup(from.Close)
	s := newSite(t)
	s.config.OSImages = []config.OSImage{{URL: from.URL + "/live.iso"}}
	address, stop := s.start(t)
	eventually(t, "the server's certificate is rejected", func() bool {
		return strings.Contains(osImagesAt(t, address)[0].Message, "certificate signed by unknown authority")
	})
	stop()
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: from.Certificate().Raw}), 0o600))
	s.config.Mirror.CABundle = bundle
	address, _ = s.start(t)
	eventually(t, "the image is ready", func() bool { return osImagesAt(t, address)[0].State == osimage.StateReady })
}

func TestOSImages_fetchThroughProxy(t *testing.T) {
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.URL.String():
		default:
		}
		http.ServeContent(w, r, "live.iso", time.Time{}, bytes.NewReader(liveISO(t)))
	}))
	t.Cleanup(proxy.Close)
	s := newSite(t)
	s.config.OSImages = []config.OSImage{{URL: "http://files.site.test/live.iso"}}
	s.config.OSImageProxy = proxy.URL
	address, _ := s.start(t)
	eventually(t, "the image is ready", func() bool { return osImagesAt(t, address)[0].State == osimage.StateReady })
	require.Equal(t, "http://files.site.test/live.iso", <-asked)
}
