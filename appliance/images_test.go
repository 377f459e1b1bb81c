package appliance_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/discovery"
	"landfall/appliance/engine/record"
	"landfall/appliance/keyring"
	"landfall/isogen"
	"landfall/store"
	"landfall/web/console"
	"landfall/web/image/progress"
)

// fetch downloads a URL, or a range of it, with the given user agent.
func fetch(t *testing.T, url, agent, ranges string) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header.Set("User-Agent", agent)
	if ranges != "" {
		request.Header.Set("Range", "bytes="+ranges)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response, body
}

// ignitionIn returns the Ignition config in an image.
func ignitionIn(t *testing.T, iso []byte) string {
	t.Helper()
	payload, err := isogen.Embedded(bytes.NewReader(iso), int64(len(iso)))
	require.NoError(t, err)
	return string(payload.Ignition)
}

func (d *testAppliance) console(id fmt.Stringer, what string) string {
	return strings.TrimSuffix(d.url, apiPath) + console.BasePath + "/infra-envs/" + id.String() + "/" + what
}

func (d *testAppliance) image(env *models.InfraEnv) *discovery.Description {
	d.Helper()
	_, body := fetch(d.T, d.console(env.ID, "image"), "page", "")
	var image discovery.Description
	require.NoError(d, json.Unmarshal(body, &image), string(body))
	return &image
}

func TestDiscoveryImage_everyBootMethodLeadsToConfig(t *testing.T) {
	d := startAppliance(t)
	env, err := d.registerInfraEnv(nil)
	require.NoError(t, err)
	image := d.image(env)
	config, err := d.infraEnvFile(&installer.V2DownloadInfraEnvFilesParams{InfraEnvID: *env.ID,
		FileName: "discovery.ign"})
	require.NoError(t, err)

	for name, url := range map[string]string{
		"download": env.DownloadURL, "full": image.Full.URL, "short": image.ShortURL, "minimal": image.Minimal.URL,
		"config image": image.ConfigImageURL, "of the first network": image.URLs[0].Full,
		"UEFI HTTP boot": image.NetworkBoot.HTTPBootURL,
	} {
		require.NotEmpty(t, url, name)
		response, body := fetch(t, url, "browser", "")
		require.Equal(t, http.StatusOK, response.StatusCode, name)
		require.Equal(t, config, ignitionIn(t, body), name)
	}
	require.Equal(t, "full-iso", image.Type)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/i/[a-z2-7]{16}\.iso$`, image.ShortURL)
	require.Less(t, len(strings.Replace(image.ShortURL, "127.0.0.1", "fifteen-letters", 1)), 60)

	boot := image.NetworkBoot
	require.Empty(t, boot.Reason)
	_, full := fetch(t, image.Full.URL, "browser", "")
	for _, url := range []string{boot.KernelURL, boot.RootFSURL} {
		response, body := fetch(t, url, "iPXE/1.21", "")
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.True(t, bytes.Contains(full, body), url)
	}
	response, initrd := fetch(t, boot.InitrdURL, "iPXE/1.21", "")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NotEmpty(t, initrd)
	_, script := fetch(t, boot.IPXEURL, "iPXE/1.21", "")
	require.Equal(t, boot.IPXEScript, string(script))
	require.Contains(t, boot.IPXEScript, boot.KernelURL+" initrd=initrd "+boot.KernelArguments)
	_, script = fetch(t, boot.IPXEURL+"?ipxe_script_type=boot-order-control", "iPXE/1.21", "")
	require.Equal(t, "#!ipxe\nchain "+boot.IPXEURL+"?mac=${net0/mac}\n", string(script))
	_, script = fetch(t, boot.IPXEURL+"?mac=52:54:00:00:00:01", "iPXE/1.21", "")
	require.Equal(t, boot.IPXEScript, string(script), "an unknown machine boots")
	_, script = fetch(t, strings.TrimSuffix(image.ShortURL, ".iso")+".ipxe", "iPXE/1.21", "")
	require.Equal(t, boot.IPXEScript, string(script))
	_, menu := fetch(t, boot.GRUBURL, "GRUB 2.12", "")
	require.Contains(t, string(menu), "menuentry")

	require.Contains(t, call(t, http.MethodGet, boot.IPXEURL+"?mac=nonsense", nil).reason(t), "expected a MAC address")
	require.Contains(t, call(t, http.MethodGet, boot.IPXEURL+"?ipxe_script_type=never", nil).reason(t),
		"discovery-image-always or boot-order-control")
}

func TestShortURL(t *testing.T) {
	d := startAppliance(t)
	env, err := d.registerInfraEnv(nil)
	require.NoError(t, err)
	first := d.image(env).ShortURL
	response, _ := fetch(t, first, "bmc", "0-2047")
	require.Equal(t, http.StatusPartialContent, response.StatusCode)

	var renewed discovery.ShortURL
	call(t, http.MethodPost, d.console(env.ID, "short-url"), `{"valid_seconds": 3600}`).read(t, http.StatusOK, &renewed)
	require.NotEqual(t, first, renewed.URL)
	require.NotNil(t, renewed.Expires)
	response, _ = fetch(t, first, "bmc", "2048-4095")
	require.Equal(t, http.StatusNotFound, response.StatusCode, "readers of the old image get no more data")
	response, _ = fetch(t, renewed.URL, "bmc", "2048-4095")
	require.Equal(t, http.StatusPartialContent, response.StatusCode)
	require.Equal(t, renewed.URL, d.image(env).ShortURL)

	require.Equal(t, http.StatusNoContent, call(t, http.MethodDelete, d.console(env.ID, "short-url"), nil).status)
	response, body := fetch(t, renewed.URL, "bmc", "4096-6143")
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	require.Contains(t, string(body), "Copy the infra-env's current short URL")
	require.Empty(t, d.image(env).ShortURL)

	guess := renewed.URL[:strings.LastIndex(renewed.URL, "/")+1] + "aaaaaaaaaaaaaaaa.iso"
	response, guessed := fetch(t, guess, "guesser", "")
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	require.Equal(t, body, guessed, "unknown and revoked codes have the same response")
}

// An expired short URL is not offered.
func TestShortURL_expired(t *testing.T) {
	s := newSite(t)
	address, stop := s.start(t)
	id := create(t, address+apiPath+"/infra-envs", s.newInfraEnv("a"))
	shortURL := func() string {
		var image discovery.Description
		call(t, http.MethodGet, address+console.BasePath+"/infra-envs/"+id+"/image", nil).read(t, http.StatusOK, &image)
		require.Empty(t, image.ShortExpires)
		return image.ShortURL
	}
	require.NotEmpty(t, shortURL())
	stop()
	db, err := store.Open(t.Context(), s.config.DataDir,
		store.Options{NoSync: true, Keys: keyring.New(s.config.DataDir, keyring.Options{}).Open})
	require.NoError(t, err)
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		row, err := record.InfraEnvs.Get(tx, id)
		if err != nil {
			return err
		}
		row.Code.Expires = time.Now().Add(-time.Second)
		return record.InfraEnvs.Put(tx, id, row)
	}))
	require.NoError(t, db.Close())
	address, _ = s.start(t)
	require.Empty(t, shortURL())
}

func TestImageReads_showProgress(t *testing.T) {
	d := startAppliance(t)
	env, err := d.registerInfraEnv(nil)
	require.NoError(t, err)
	image := d.image(env)
	const piece = 32 << 10
	for at := int64(0); at < image.Full.SizeBytes/2; at += piece {
		fetch(t, image.ShortURL, "bmc", fmt.Sprintf("%d-%d", at, at+piece-1))
	}
	var status struct{ Reads []progress.Report }
	call(t, http.MethodGet, d.console(env.ID, "reads"), nil).read(t, http.StatusOK, &status)
	require.Len(t, status.Reads, 1)
	read := status.Reads[0]
	require.Equal(t, "127.0.0.1", read.Client)
	require.Equal(t, "full", read.Kind)
	require.Equal(t, image.ETag, read.Image)
	require.InDelta(t, 50, read.SharePercent, 1)
	require.NotEmpty(t, read.Segments)
	require.Equal(t, progress.Reading, read.State)
	require.Contains(t, read.Sentence, "BMC 127.0.0.1 is reading")
}

// TestBootListener_servesOnlyImages also checks that URLs in responses name the boot listener's
// port.
func TestBootListener_servesOnlyImages(t *testing.T) {
	s := newSite(t)
	s.config.BootListen = "127.0.0.1:0"
	address, _ := s.start(t)
	d := openConnection(address).appliance(t, s)
	env, err := d.registerInfraEnv(nil)
	require.NoError(t, err)
	image := d.image(env)
	boot := image.ShortURL[:strings.Index(image.ShortURL, "/i/")]
	require.NotEqual(t, address, boot)
	for _, url := range []string{image.ShortURL, image.NetworkBoot.KernelURL, image.NetworkBoot.IPXEURL,
		boot + "/live"} {
		require.True(t, strings.HasPrefix(url, boot), url)
		response, _ := fetch(t, url, "machine", "")
		require.Equal(t, http.StatusOK, response.StatusCode, url)
	}
	require.Contains(t, image.NetworkBoot.IPXEScript, boot+"/byid/")
	for _, path := range []string{"/", apiPath + "/clusters", console.BasePath + "/status", "/assets/index.js"} {
		response, _ := fetch(t, boot+path, "machine", "")
		require.Equal(t, http.StatusNotFound, response.StatusCode, path)
	}
}

// TestDiscoveryImage_patchedWhileRead reads the image in ranges with 50 clients, half of them with
// the same name, while the infra-env is patched 100 times. The bytes of each client must belong to
// one revision.
func TestDiscoveryImage_patchedWhileRead(t *testing.T) {
	const clients, patches, ranges = 20, 30, 30
	d := startAppliance(t)
	env, err := d.registerInfraEnv(nil)
	require.NoError(t, err)
	size := d.image(env).Full.SizeBytes
	piece := size/ranges + 1

	var mu sync.Mutex
	revisions := map[string]bool{}
	note := func() {
		image := d.image(env)
		_, body := fetch(t, image.Full.URL, "witness", "")
		mu.Lock()
		defer mu.Unlock()
		revisions[fmt.Sprintf("%x", sha256.Sum256(body))] = true
	}
	note()
	got := make([]string, clients)
	var reading sync.WaitGroup
	next := make(chan struct{}) // one value allows one range request
	for client := range clients {
		reading.Go(func() {
			agent := "bmc"
			if client%2 == 0 {
				agent = fmt.Sprint("bmc ", client)
			}
			sum := sha256.New()
			for at := int64(0); at < size; at += piece {
				<-next
				request, err := http.NewRequest(http.MethodGet, env.DownloadURL, nil)
				if err != nil {
					t.Error(err)
					continue
				}
				request.Header.Set("User-Agent", agent)
				request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", at, at+piece-1))
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Error(err)
					continue
				}
				if _, err := io.Copy(sum, response.Body); err != nil {
					t.Error(err)
				}
				if err := response.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			got[client] = fmt.Sprintf("%x", sum.Sum(nil))
		})
	}
	for i := range patches {
		for range clients * ranges / patches {
			next <- struct{}{}
		}
		_, err := d.updateInfraEnv(*env.ID, &models.InfraEnvUpdateParams{IgnitionConfigOverride: fmt.Sprintf(
			`{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/revision","contents":{"source":"data:,%d"}}]}}`, i)})
		require.NoError(t, err)
		note()
	}
	reading.Wait()
	require.Len(t, revisions, patches+1)
	for client, sum := range got {
		require.True(t, revisions[sum], "client %d got bytes of several revisions", client)
	}
}
