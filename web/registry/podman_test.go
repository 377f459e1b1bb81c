//go:build registry

package registry_test

import (
	"archive/tar"
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	simulated "landfall/appliance/simulate/registry"
)

// podman runs Debian's podman with storage of its own, and returns its output. The storage driver
// vfs works on each file system.
func (s *site) podman(arguments ...string) (string, error) {
	s.Helper()
	path, err := exec.LookPath("podman")
	require.NoError(s, err, ".ci/install-registry installs it")
	config := filepath.Join(s.data, ".config", "containers")
	require.NoError(s, os.MkdirAll(config, 0o700))
	require.NoError(s, os.WriteFile(filepath.Join(config, "policy.json"),
		[]byte(`{"default":[{"type":"insecureAcceptAnything"}]}`), 0o600))
	options := []string{"--root", filepath.Join(s.data, "storage"), "--runroot", filepath.Join(s.data, "run"),
		"--storage-driver", "vfs", "--storage-opt", "vfs.ignore_chown_errors=true", "--cgroup-manager", "cgroupfs"}
	cmd := exec.CommandContext(s.Context(), path, append(options, arguments...)...)
	cmd.Env = append(os.Environ(), "HOME="+s.data, "XDG_CONFIG_HOME="+filepath.Dir(config), "XDG_RUNTIME_DIR="+s.data)
	var output, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &messages
	err = cmd.Run()
	s.Logf("podman %s\n%s%s", strings.Join(arguments, " "), output.String(), messages.String())
	return strings.TrimSpace(output.String()), err
}

// fileLayer returns a layer with one file.
func fileLayer(t testing.TB, size int) []byte {
	t.Helper()
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content) // never fails
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "file", Mode: 0o644, Size: int64(size)}))
	_, err := w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return layer.Bytes()
}

// podman pulls an image from a medium, pushes it under another name, and pulls that.
func TestPodman_pullAndPush(t *testing.T) {
	s := newSite(t)
	a := &simulated.Archive{}
	_, err := a.AddBlob(t.Context(), "team/image", "v0", fileLayer(t, 3<<20))
	require.NoError(t, err)
	s.write(archive1, a)
	s.start()
	image, pushed := s.host()+"/team/image:v0", s.host()+"/team/pushed:1"
	id, err := s.podman("pull", "--quiet", "--tls-verify=false", image)
	require.NoError(t, err)
	require.NotEmpty(t, id)

	_, err = s.podman("push", "--tls-verify=false", image, pushed)
	require.Error(t, err, "a push needs an account")
	_, err = s.podman("push", "--tls-verify=false", "--creds", operator+":"+password, image, pushed)
	require.NoError(t, err)
	_, err = s.podman("rmi", "--all", "--force")
	require.NoError(t, err)
	again, err := s.podman("pull", "--quiet", "--tls-verify=false", pushed)
	require.NoError(t, err)
	require.Equal(t, id, again)
}
