package keyring_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-tpm/tpm2"
	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
	"landfall/appliance/keyring"
	"landfall/store/seal"
)

// place is a data directory with all that the methods need.
type place struct {
	*testing.T
	dir     string
	options keyring.Options
}

// methods returns the methods that need no other program. The file swtpm_test.go tests the method
// TPM.
func methods() []keyring.Method {
	return slices.DeleteFunc(keyring.Methods(), func(with keyring.Method) bool { return with == keyring.TPM })
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{T: t, dir: t.TempDir()}
	p.options = keyring.Options{PassphraseFile: filepath.Join(t.TempDir(), "passphrase"),
		CredentialsDirectory: t.TempDir()}
	p.write(p.options.PassphraseFile, "correct horse\n")
	p.write(filepath.Join(p.options.CredentialsDirectory, keyring.CredentialName), strings.Repeat("r", 32))
	return p
}

func (p *place) write(path, text string) {
	p.Helper()
	require.NoError(p, os.WriteFile(path, []byte(text), 0o600))
}

func (p *place) open(with keyring.Method) (*keyring.Keyring, *seal.Ring) {
	p.Helper()
	p.options.With = with
	k := keyring.New(p.dir, p.options)
	ring, err := k.Open(false)
	require.NoError(p, err)
	return k, ring
}

// files returns the contents of the data directory.
func (p *place) files() map[string]string {
	p.Helper()
	found := map[string]string{}
	entries, err := os.ReadDir(p.dir)
	require.NoError(p, err)
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(p.dir, entry.Name()))
		require.NoError(p, err)
		info, err := entry.Info()
		require.NoError(p, err)
		require.Equal(p, fs.FileMode(0o600), info.Mode().Perm())
		found[entry.Name()] = string(text)
	}
	return found
}

func TestKeyring_eachMethodOpensAgain(t *testing.T) {
	for _, with := range methods() {
		t.Run(string(with), func(t *testing.T) {
			p := newPlace(t)
			_, ring := p.open(with)
			sealed, err := ring.Seal(nil, []byte("secret"), nil)
			require.NoError(t, err)
			for _, again := range []keyring.Method{with, ""} {
				k, ring := p.open(again)
				require.Equal(t, with, k.With())
				plain, err := ring.Open(sealed, nil)
				require.NoError(t, err)
				require.Equal(t, "secret", string(plain))
			}
		})
	}
}

func TestKeyring_methodCanChange(t *testing.T) {
	p := newPlace(t)
	_, first := p.open("")
	require.Contains(t, p.files(), keyring.DefaultKeyFile)
	for _, with := range []keyring.Method{keyring.Passphrase, keyring.Credential, keyring.File, keyring.Passphrase} {
		k, ring := p.open(with)
		require.Equal(t, with, k.With())
		require.Equal(t, first.Keys(), ring.Keys())
		_, keyFile := p.files()[keyring.DefaultKeyFile]
		require.Equal(t, with == keyring.File, keyFile, "no other method leaves a key file")
	}
}

func TestKeyring_whatDoesNotFitChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		with   keyring.Method
		damage func(*place)
		want   string
	}{
		"wrong key file": {keyring.File, func(p *place) {
			p.write(filepath.Join(p.dir, keyring.DefaultKeyFile), strings.Repeat("A", 43)+"=\n")
		}, "does not fit the data key"},
		"no key file": {keyring.File, func(p *place) {
			require.NoError(p, os.Remove(filepath.Join(p.dir, keyring.DefaultKeyFile)))
		}, "restore the file, or name it with seal.key_file or LANDFALL_SEAL_KEY_FILE."},
		"wrong passphrase": {keyring.Passphrase, func(p *place) { p.write(p.options.PassphraseFile, "wrong") },
			"The passphrase does not fit the data key; give the right one, or restore data.key from a backup if the " +
				"file is damaged. Nothing was changed."},
		"empty passphrase": {keyring.Passphrase, func(p *place) { p.write(p.options.PassphraseFile, "\n") },
			"The passphrase of the data key is empty"},
		"wrong credential": {keyring.Credential, func(p *place) {
			p.write(filepath.Join(p.options.CredentialsDirectory, keyring.CredentialName), strings.Repeat("x", 32))
		}, "does not fit the data key"},
		"short credential": {keyring.Credential, func(p *place) {
			p.write(filepath.Join(p.options.CredentialsDirectory, keyring.CredentialName), "short")
		}, "it must have at least 32 random bytes"},
		"no credential": {keyring.Credential, func(p *place) { p.options.CredentialsDirectory = "" },
			"systemd passed no credentials"},
		"damaged": {keyring.File, func(p *place) { p.write(filepath.Join(p.dir, keyring.FileName), "{") },
			"is damaged; restore it from a backup."},
		"newer": {keyring.File, func(p *place) {
			p.write(filepath.Join(p.dir, keyring.FileName), `{"version": 2, "keys": "AAAA"}`)
		}, "use the newer Landfall."},
		"unknown method": {keyring.File, func(p *place) {
			p.write(filepath.Join(p.dir, keyring.FileName), `{"version": 1, "sealed_with": "wax", "keys": "AAAA"}`)
		}, "which this Landfall does not know; use a newer Landfall"},
		"missing": {keyring.File, func(p *place) {
			require.NoError(p, os.Remove(filepath.Join(p.dir, keyring.FileName)))
		}, "is missing, and the database can't be read without it; restore it from a backup."},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.open(c.with)
			c.damage(p)
			before := p.files()
			_, err := keyring.New(p.dir, p.options).Open(true)
			var told *keyring.Error
			require.ErrorAs(t, err, &told)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, before, p.files())
		})
	}
}

// TestKeyring_flippedBits flips a bit of each byte of the files. Either the keys open as before, or
// a sentence names the file to restore.
func TestKeyring_flippedBits(t *testing.T) {
	for _, with := range []keyring.Method{keyring.File, keyring.Credential} {
		p := newPlace(t)
		_, ring := p.open(with)
		p.options.With = ""
		sealed, err := ring.Seal(nil, []byte("value"), nil)
		require.NoError(t, err)
		said := 0
		for name, text := range p.files() {
			for bit := 0; bit < len(text)*8; bit += 7 {
				damaged := []byte(text)
				damaged[bit/8] ^= 1 << (bit % 8)
				p.write(filepath.Join(p.dir, name), string(damaged))
				before := p.files()
				opened, err := keyring.New(p.dir, p.options).Open(true)
				require.Equal(t, before, p.files(), "%s, bit %d", name, bit)
				if err == nil {
					value, err := opened.Open(sealed, nil)
					require.NoError(t, err, "%s, bit %d", name, bit)
					require.Equal(t, "value", string(value))
					continue
				}
				said++
				var told *keyring.Error
				require.ErrorAs(t, err, &told, "%s, bit %d", name, bit)
				require.Regexp(t, name+`.*restore|restore .*`+name+`|use the newer Landfall`, err.Error(), "bit %d", bit)
			}
			p.write(filepath.Join(p.dir, name), text)
		}
		require.NotZero(t, said)
	}
}

func TestKeyring_filesOpenToOthersAreRefused(t *testing.T) {
	for _, name := range []string{keyring.FileName, keyring.DefaultKeyFile} {
		p := newPlace(t)
		p.open(keyring.File)
		require.NoError(t, os.Chmod(filepath.Join(p.dir, name), 0o640))
		_, err := keyring.New(p.dir, p.options).Open(true)
		require.ErrorContains(t, err, "so others may have read it; set the mode to 0600.")
	}
}

// data is stored data that counts how often it was sealed again.
type data struct {
	sealed int
	err    error
	during func()
}

func (d *data) Reseal(context.Context) error {
	d.sealed++
	if d.during != nil {
		d.during()
	}
	return d.err
}

func TestRotate_forgetsTheOlderKey(t *testing.T) {
	for _, with := range methods() {
		t.Run(string(with), func(t *testing.T) {
			p := newPlace(t)
			k, ring := p.open(with)
			before := p.files()
			d := &data{during: func() {
				_, halfway := p.open("") // as after kill -9
				require.Len(t, halfway.Keys(), 2)
			}}
			require.NoError(t, k.Rotate(t.Context(), d))
			require.Equal(t, 1, d.sealed)
			require.EqualValues(t, 2, ring.Current())
			require.NotEqual(t, before, p.files())
			_, again := p.open("")
			require.Equal(t, ring.Keys()[1:], again.Keys())

			// The key file of before does not open data.key of now.
			if with == keyring.File {
				p.write(filepath.Join(p.dir, keyring.DefaultKeyFile), before[keyring.DefaultKeyFile])
				_, err := keyring.New(p.dir, p.options).Open(true)
				require.ErrorIs(t, err, keyring.ErrWrong)
			}
		})
	}
}

// TestRotate_formerKeyFileStays opens the data.key of a backup from before two rotations.
func TestRotate_formerKeyFileStays(t *testing.T) {
	p := newPlace(t)
	k, _ := p.open(keyring.File)
	var backups [][]byte
	for range 2 {
		content, err := k.Content()
		require.NoError(t, err)
		backups = append(backups, content)
		require.NoError(t, k.Rotate(t.Context(), &data{}))
	}
	former, err := filepath.Glob(filepath.Join(p.dir, keyring.DefaultKeyFile+".former-*"))
	require.NoError(t, err)
	require.Len(t, former, 2)
	for i, path := range former { // the oldest first
		key, err := os.ReadFile(path)
		require.NoError(t, err)
		dir := t.TempDir()
		for name, content := range map[string][]byte{keyring.FileName: backups[i], keyring.DefaultKeyFile: key} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
		_, err = keyring.New(dir, keyring.Options{}).Open(true)
		require.NoError(t, err)
	}
	unknown, err := backup.Unknown(p.dir)
	require.NoError(t, err)
	require.Empty(t, unknown)
}

func TestRotate_interruptedIsResumed(t *testing.T) {
	p := newPlace(t)
	k, _ := p.open(keyring.File)
	failure := errors.New("the disk is full")
	require.ErrorIs(t, k.Rotate(t.Context(), &data{err: failure}), failure)
	k, ring := p.open("")
	require.Len(t, ring.Keys(), 2)
	d := &data{}
	require.NoError(t, k.Resume(t.Context(), d))
	require.Equal(t, 1, d.sealed)
	_, ring = p.open("")
	require.Len(t, ring.Keys(), 1)
	k, _ = p.open("")
	require.NoError(t, k.Resume(t.Context(), d))
	require.Equal(t, 1, d.sealed, "there is nothing to resume")
}

func TestTPM_cannotBeOpened(t *testing.T) {
	for name, c := range map[string]struct{ device, want string }{
		"missing":   {"none", "needs a TPM 2.0 at none, but there is none; enable it in the firmware"},
		"a file":    {"keyring.go", "The file keyring.go is not a TPM; name the device of a TPM 2.0"},
		"no answer": {"/dev/null", "The TPM at /dev/null failed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.open(keyring.File)
			before := p.files()
			p.options.With, p.options.TPMDevice = keyring.TPM, c.device
			_, err := keyring.New(p.dir, p.options).Open(true)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "Nothing was changed.")
			require.Equal(t, before, p.files())
		})
	}
}

// answer listens on a socket and answers each command like a TPM that returns a code.
func answer(t *testing.T, code tpm2.TPMRC) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "tpm") // the path of a socket has at most 107 bytes
	require.NoError(t, err)
	socket = filepath.Join(dir, "tpm")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connection.Read(make([]byte, 4096))
			header := binary.BigEndian.AppendUint16(nil, uint16(tpm2.TPMSTNoSessions))
			header = binary.BigEndian.AppendUint32(header, 10) // its size
			connection.Write(binary.BigEndian.AppendUint32(header, uint32(code)))
			connection.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
		os.RemoveAll(dir)
	})
	return socket
}

func TestTPM_refusals(t *testing.T) {
	for code, want := range map[tpm2.TPMRC]string{
		tpm2.TPMRCYielded:      "Other programs use the TPM at ",
		tpm2.TPMRCTesting:      "Other programs use the TPM at ",
		tpm2.TPMRCObjectMemory: "Other programs use the TPM at ",
		tpm2.TPMRCBadAuth:      "has a password, which Landfall does not know",
		tpm2.TPMRCFailure:      "TPM_RC_FAILURE",
		tpm2.TPMRCInitialize:   "TPM_RC_INITIALIZE",
		tpm2.TPMRCSuccess:      "failed",
	} {
		t.Run(fmt.Sprintf("%x", uint32(code)), func(t *testing.T) {
			p := newPlace(t)
			p.open(keyring.File)
			before := p.files()
			p.options.With, p.options.TPMDevice = keyring.TPM, answer(t, code)
			_, err := keyring.New(p.dir, p.options).Open(true)
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "Nothing was changed.")
			require.Equal(t, before, p.files())
		})
	}
}
