//go:build tpm

// Tests of the method TPM with the TPM emulator swtpm.

package keyring_test

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"
	"github.com/stretchr/testify/require"

	"landfall/appliance/keyring"
)

// emulator is a running TPM emulator.
type emulator struct{ socket string }

func startTPM(t *testing.T) emulator {
	t.Helper()
	dir, err := os.MkdirTemp("", "tpm") // the path of a socket has at most 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	e := emulator{filepath.Join(dir, "tpm")}
	var output bytes.Buffer
	process := exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+dir, "--flags",
		"not-need-init,startup-clear", "--server", "type=unixio,path="+e.socket)
	process.Stdout, process.Stderr = &output, &output
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
		if t.Failed() {
			t.Log("swtpm: ", output.String())
		}
	})
	require.Eventually(t, func() bool {
		connection, err := net.Dial("unix", e.socket)
		return err == nil && connection.Close() == nil
	}, time.Minute, 10*time.Millisecond)
	return e
}

func (e emulator) open(t *testing.T) transport.TPMCloser {
	t.Helper()
	tpm, err := linuxudstpm.Open(e.socket)
	require.NoError(t, err)
	return tpm
}

// tpmPlace is a data directory with a TPM for its data key.
type tpmPlace struct {
	*place
	tpm emulator
}

func newTPMPlace(t *testing.T) *tpmPlace {
	t.Helper()
	p := &tpmPlace{newPlace(t), startTPM(t)}
	p.options.TPMDevice = p.tpm.socket
	return p
}

// parameters changes the parameters of the TPM in data.key.
func (p *tpmPlace) parameters(change func(map[string][]byte)) {
	p.Helper()
	path := filepath.Join(p.dir, keyring.FileName)
	text, err := os.ReadFile(path)
	require.NoError(p, err)
	var file map[string]json.RawMessage
	require.NoError(p, json.Unmarshal(text, &file))
	var parameters map[string][]byte
	require.NoError(p, json.Unmarshal(file["parameters"], &parameters))
	change(parameters)
	file["parameters"], err = json.Marshal(parameters)
	require.NoError(p, err)
	text, err = json.Marshal(file)
	require.NoError(p, err)
	require.NoError(p, os.WriteFile(path, text, 0o600))
}

func TestTPM_opensAgain(t *testing.T) {
	p := newTPMPlace(t)
	_, ring := p.open(keyring.TPM)
	require.Len(t, p.files(), 1, "there is only data.key")
	for range 20 { // more often than the TPM has slots for keys and sessions
		k, again := p.open("")
		require.Equal(t, keyring.TPM, k.With())
		require.Equal(t, ring.Keys(), again.Keys())
	}
}

func TestTPM_methodCanChange(t *testing.T) {
	p := newTPMPlace(t)
	_, first := p.open(keyring.File)
	for _, with := range []keyring.Method{keyring.TPM, keyring.Passphrase, keyring.TPM, keyring.File} {
		k, ring := p.open(with)
		require.Equal(t, with, k.With())
		require.Equal(t, first.Keys(), ring.Keys())
		_, keyFile := p.files()[keyring.DefaultKeyFile]
		require.Equal(t, with == keyring.File, keyFile)
	}
}

func TestTPM_copySealedOtherwiseOpensWithoutIt(t *testing.T) {
	p := newTPMPlace(t)
	_, ring := p.open(keyring.Passphrase)
	kept := p.files()[keyring.FileName]
	p.open(keyring.TPM)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, keyring.FileName), []byte(kept), 0o600))
	p.options.TPMDevice = filepath.Join(t.TempDir(), "none")
	_, again := p.open("")
	require.Equal(t, ring.Keys(), again.Keys())
}

func TestTPM_rotates(t *testing.T) {
	p := newTPMPlace(t)
	k, ring := p.open(keyring.TPM)
	require.NoError(t, k.Rotate(t.Context(), &data{during: func() {
		_, halfway := p.open("") // as after kill -9
		require.Len(t, halfway.Keys(), 2)
	}}))
	_, again := p.open("")
	require.Equal(t, ring.Keys()[1:], again.Keys())
}

func TestTPM_whatDoesNotFitChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*tpmPlace)
		want   string
	}{
		"another TPM": {func(p *tpmPlace) { p.options.TPMDevice = startTPM(p.T).socket }, "did not seal the data key"},
		"cleared TPM": {func(p *tpmPlace) {
			tpm := p.tpm.open(p.T)
			_, err := tpm2.Clear{AuthHandle: tpm2.TPMRHLockout}.Execute(tpm)
			require.NoError(p, err)
			require.NoError(p, tpm.Close())
		}, "did not seal the data key, or was cleared since"},
		"owner with a password": {func(p *tpmPlace) {
			tpm := p.tpm.open(p.T)
			_, err := tpm2.HierarchyChangeAuth{AuthHandle: tpm2.TPMRHOwner,
				NewAuth: tpm2.TPM2BAuth{Buffer: []byte("secret")}}.Execute(tpm)
			require.NoError(p, err)
			require.NoError(p, tpm.Close())
		}, "has a password, which Landfall does not know"},
		"full TPM": {func(p *tpmPlace) {
			tpm := p.tpm.open(p.T)
			for {
				_, err := tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHOwner,
					InPublic: tpm2.New2B(tpm2.ECCSRKTemplate)}.Execute(tpm)
				if err != nil {
					require.ErrorIs(p, err, tpm2.TPMRCObjectMemory)
					return
				}
			}
		}, "Other programs use the TPM at "},
		"no TPM": {func(p *tpmPlace) { p.options.TPMDevice = filepath.Join(p.TempDir(), "none") },
			"needs a TPM 2.0 at "},
		"damaged key": {func(p *tpmPlace) {
			p.parameters(func(fields map[string][]byte) { fields["private"][40] ^= 1 })
		}, "The parameters of the TPM in data.key are damaged"},
		"no key": {func(p *tpmPlace) {
			p.parameters(func(fields map[string][]byte) { fields["private"] = nil })
		}, "The parameters of the TPM in data.key are damaged"},
		"no public part": {func(p *tpmPlace) {
			p.parameters(func(fields map[string][]byte) { fields["public"] = nil })
		}, "The parameters of the TPM in data.key are damaged"},
	} {
		for _, with := range []keyring.Method{"", keyring.File} {
			t.Run(name+" "+string(with), func(t *testing.T) {
				p := newTPMPlace(t)
				p.open(keyring.TPM)
				c.damage(p)
				before := p.files()
				p.options.With = with
				_, err := keyring.New(p.dir, p.options).Open(true)
				var told *keyring.Error
				require.ErrorAs(t, err, &told)
				require.ErrorContains(t, err, c.want)
				require.Equal(t, before, p.files())
			})
		}
	}
}

func TestTPM_failedChangeKeepsTheMethod(t *testing.T) {
	p := newTPMPlace(t)
	_, first := p.open(keyring.File)
	before := p.files()
	device := p.options.TPMDevice
	p.options.TPMDevice, p.options.With = filepath.Join(t.TempDir(), "none"), keyring.TPM
	_, err := keyring.New(p.dir, p.options).Open(true)
	require.ErrorContains(t, err, "needs a TPM 2.0 at ")
	require.Equal(t, before, p.files())
	p.options.TPMDevice = device
	_, ring := p.open(keyring.TPM)
	require.Equal(t, first.Keys(), ring.Keys())
}
