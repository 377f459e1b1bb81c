//go:build registry

package registry_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/registry"
)

// skopeo runs Debian's skopeo, a client of containers/image like CRI-O and podman.
func (s *site) skopeo(arguments ...string) error {
	s.Helper()
	path, err := exec.LookPath("skopeo")
	require.NoError(s, err, ".ci/install-registry installs it")
	policy := filepath.Join(s.TempDir(), "policy.json") // of this call: others run at the same time
	require.NoError(s, os.WriteFile(policy, []byte(`{"default":[{"type":"insecureAcceptAnything"}]}`), 0o600))
	cmd := exec.CommandContext(s.Context(), path, append([]string{"--policy", policy}, arguments...)...)
	cmd.Env = append(os.Environ(), "HOME="+s.data, "XDG_RUNTIME_DIR="+s.data)
	text, err := cmd.CombinedOutput()
	s.Logf("skopeo %s\n%s", strings.Join(arguments, " "), text)
	return err
}

// pull pulls team/image:v0 into a folder and compares its layer.
func (s *site) skopeoPull(to string, layers map[string][]byte, digest string) {
	s.Helper()
	require.NoError(s, s.skopeo("copy", "--src-tls-verify=false", "docker://"+s.host()+"/team/image:v0", "dir:"+to))
	got, err := os.ReadFile(filepath.Join(to, digest[len("sha256:"):]))
	require.NoError(s, err)
	require.True(s, bytes.Equal(layers[digest], got))
}

// layerOf returns the digest of the layer of team/image:v0.
func (s *site) layerOf(layers map[string][]byte) string {
	s.Helper()
	manifest := s.get("/v2/team/image/manifests/v0").body
	for digest := range layers {
		if bytes.Contains(manifest, []byte(digest)) {
			return digest
		}
	}
	require.FailNow(s, "the image has no layer")
	return ""
}

// A pull of which the connection breaks, because the stick is pulled out, ends whole or with an
// error: containers/image continues a pull since version 5.23, and skopeo 1.9 has an older one. The
// next pull, as kubelet repeats it, is whole.
func TestSkopeo_stickIsPulledOut(t *testing.T) {
	s := newSite(t)
	f := &faults{left: -1}
	s.open = f.open
	a, layers := layered(t, 1, 12<<20)
	s.write(archive1, a)
	s.start()
	digest := s.layerOf(layers)
	f.set(5<<20, nil)
	changed := s.registry.Changed()
	back := make(chan struct{})
	go func() {
		defer close(back)
		<-changed // the stick is missing
		f.set(-1, nil)
		s.registry.Look()
	}()
	if s.skopeo("copy", "--src-tls-verify=false", "docker://"+s.host()+"/team/image:v0",
		"dir:"+filepath.Join(s.data, "broken")) == nil {
		t.Log("skopeo continued the pull")
	}
	<-back
	s.lookNow()
	s.skopeoPull(filepath.Join(s.data, "out"), layers, digest)
}

// Several clients pull an image while its medium is copied, and again when the medium has gone.
func TestSkopeo_whileStaging(t *testing.T) {
	s := newSite(t)
	from := newStick()
	s.open = from.open
	a, layers := layered(t, 1, 12<<20)
	s.write(archive1, a)
	s.start()
	digest := s.layerOf(layers)
	from.hold(true)
	s.stage()
	from.awaitReads(1)
	from.hold(false)
	group := new(errgroup.Group)
	for _, name := range []string{"a", "b", "c"} {
		group.Go(func() error {
			return s.skopeo("copy", "--src-tls-verify=false", "docker://"+s.host()+"/team/image:v0",
				"dir:"+filepath.Join(s.data, name))
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, s.awaitCopy(registry.StageWhole).Bytes, from.read())
	s.remove(archive1)
	s.skopeoPull(filepath.Join(s.data, "after"), layers, digest)
}

// skopeo pushes an image to the registry and pulls it again.
func TestSkopeo_push(t *testing.T) {
	s := newSite(t)
	a, layers := layered(t, 1, 3<<20)
	s.write(archive1, a)
	s.start()
	digest := s.layerOf(layers)
	out := filepath.Join(s.data, "out")
	s.skopeoPull(out, layers, digest)
	require.Error(t, s.skopeo("copy", "--dest-tls-verify=false", "dir:"+out, "docker://"+s.host()+"/team/pushed:1"),
		"a push needs an account")
	require.NoError(t, s.skopeo("copy", "--dest-tls-verify=false", "--dest-creds", operator+":"+password, "dir:"+out,
		"docker://"+s.host()+"/team/pushed:1"))
	require.Equal(t, s.get("/v2/team/image/manifests/v0").body, s.get("/v2/team/pushed/manifests/1").body)
}
