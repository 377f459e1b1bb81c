// Package keyring keeps the data keys, with which everything in a data directory is sealed.
//
// The file data.key contains the data keys, sealed with a key-encryption key. The method of the
// file says where that key comes from:
//
//	file        a key file, by default seal.key beside data.key
//	passphrase  a passphrase, by argon2id
//	credential  a credential of systemd
//	tpm         the TPM 2.0 of the machine
//
// A rotation makes a new data key, seals everything again with it, and then forgets the older key.
// Until everything is sealed again, data.key contains both keys. So an interrupted rotation loses
// nothing, and the next start continues it.
//
// Design: docs/design.md#sealed-values.
package keyring

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"landfall/appliance/durable"
	"landfall/store/seal"
)

// Names of files in the data directory.
const (
	FileName        = "data.key"
	DefaultKeyFile  = "seal.key"
	fileVersion     = 1
	keyringContext  = "landfall data keys"
	keyEncryptionNo = 1
)

// Options says how the data keys are sealed.
type Options struct {
	// With is the method for the data keys. If data.key was sealed with another method, it is
	// sealed again. "" keeps the method of data.key, and means File for a new data directory.
	With Method
	// KeyFile is the key file of the method File. "": seal.key in the data directory.
	KeyFile string
	// PassphraseFile is a file with the passphrase. "": the terminal asks for the passphrase.
	PassphraseFile string
	// CredentialsDirectory is the directory of systemd's credentials.
	CredentialsDirectory string
	// TPMDevice is the TPM's device, or the socket of an emulator. "": DefaultTPMDevice.
	TPMDevice string
	Logger    *slog.Logger     // nil: silent
	Now       func() time.Time // nil: time.Now
}

// FromEnvironment returns options that keep the method of a data directory. They take
// the key file, the passphrase file and the TPM's device from the configuration's environment
// variables.
func FromEnvironment() Options {
	return Options{
		KeyFile: os.Getenv("LANDFALL_SEAL_KEY_FILE"), PassphraseFile: os.Getenv("LANDFALL_SEAL_PASSPHRASE_FILE"),
		CredentialsDirectory: os.Getenv("CREDENTIALS_DIRECTORY"), TPMDevice: os.Getenv("LANDFALL_SEAL_TPM_DEVICE"),
	}
}

// Files returns the files and devices that may be read to open the data keys, besides those of the
// data directory and of systemd.
func (o Options) Files() []string {
	return []string{o.KeyFile, o.PassphraseFile, cmp.Or(o.TPMDevice, DefaultTPMDevice)}
}

// Error is an error of this package. Its text is a sentence for a person.
type Error struct {
	Reason string
	Err    error
}

// Error implements error.
func (e *Error) Error() string { return e.Reason }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrWrong is the cause of an Error about a key or a passphrase that does not fit.
var ErrWrong = errors.New("the key does not fit")

// ErrNoKey is the cause of an Error about a key or a passphrase that is not at hand. The data may
// be whole.
var ErrNoKey = errors.New("the key is not at hand")

func newError(err error, format string, values ...any) *Error {
	return &Error{Reason: fmt.Sprintf(format, values...), Err: err}
}

// Keyring is the data keys of one data directory.
type Keyring struct {
	dir     string
	options Options

	rotating sync.Mutex // held during a rotation
	mu       sync.Mutex // guards the fields below and data.key
	ring     *seal.Ring
	method   method
	wrap     wrap
}

// wrap is a key-encryption key and its origin.
type wrap struct {
	with       Method
	key        []byte
	parameters json.RawMessage
}

// file is the content of data.key.
type file struct {
	Version    int             `json:"version"`
	With       Method          `json:"sealed_with"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
	Keys       []byte          `json:"keys"` // the sealed JSON of []seal.Key
}

// New returns the keyring of a data directory. Open reads it.
func New(dir string, options Options) *Keyring {
	if options.KeyFile == "" {
		options.KeyFile = filepath.Join(dir, DefaultKeyFile)
	}
	if options.TPMDevice == "" {
		options.TPMDevice = DefaultTPMDevice
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keyring{dir: dir, options: options}
}

func (k *Keyring) path() string { return filepath.Join(k.dir, FileName) }

// Open reads the data keys. It creates the first key if the database is not sealed yet. The caller
// must have locked the data directory. Errors are *Error; after an error, the directory is
// unchanged.
func (k *Keyring) Open(sealed bool) (*seal.Ring, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	stored, err := k.read()
	switch {
	case errors.Is(err, fs.ErrNotExist) && sealed:
		return nil, newError(err, "The file %s is missing, and the database can't be read without it; restore it "+
			"from a backup.", k.path())
	case errors.Is(err, fs.ErrNotExist):
		return k.create()
	case err != nil:
		return nil, err
	}
	if k.method, err = k.newMethod(stored.With); err != nil {
		return nil, err
	}
	keys, err := k.open(stored)
	if err != nil {
		return nil, err
	}
	if k.ring, err = seal.NewRing(keys...); err != nil {
		return nil, newError(err, "The file %s is damaged; restore it from a backup.", k.path())
	}
	if with := k.options.With; with != "" && with != stored.With {
		return k.ring, k.change(with)
	}
	return k.ring, nil
}

// Export returns the files data.key and seal.key with a copy of the data keys, which any machine
// can open. Whoever has both files can read the data.
func (k *Keyring) Export() (map[string][]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := seal.NewKey(1).Secret
	content, err := sealKeys(k.ring.Keys(), wrap{with: File, key: key})
	if err != nil {
		return nil, err
	}
	return map[string][]byte{FileName: content,
		DefaultKeyFile: []byte(base64.StdEncoding.EncodeToString(key) + "\n")}, nil
}

// Content returns the content of data.key with all data keys that this process has used. The file
// itself has no older keys after a rotation, but a backup that began before the rotation needs
// them. A start with several keys completes the rotation.
func (k *Keyring) Content() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return sealKeys(k.ring.Keys(), k.wrap)
}

// Ring returns the ring that Open returned.
func (k *Keyring) Ring() *seal.Ring {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ring
}

// With returns the method with which the data keys are sealed.
func (k *Keyring) With() Method {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wrap.with
}

func (k *Keyring) read() (file, error) {
	var stored file
	info, err := os.Stat(k.path())
	if errors.Is(err, fs.ErrNotExist) {
		return stored, err
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return stored, newError(nil, "The file %s has the mode %04o, so others may have read it; set the mode to 0600.",
			k.path(), info.Mode().Perm())
	}
	text, err := os.ReadFile(k.path())
	if err != nil {
		return stored, newError(err, "The file %s can't be read: %v.", k.path(), err)
	}
	if err := json.Unmarshal(text, &stored); err != nil || len(stored.Keys) == 0 {
		return stored, newError(err, "The file %s is damaged; restore it from a backup.", k.path())
	}
	if stored.Version > fileVersion {
		return stored, newError(nil, "The file %s was written by a newer Landfall; use the newer Landfall.", k.path())
	}
	return stored, nil
}

// create makes the first data key.
func (k *Keyring) create() (_ *seal.Ring, err error) {
	with := k.options.With
	if with == "" {
		with = File
	}
	if k.method, err = k.newMethod(with); err != nil {
		return nil, err
	}
	if k.ring, err = seal.NewRing(seal.NewKey(1)); err != nil {
		return nil, err
	}
	if err := k.write(k.ring.Keys()); err != nil {
		return nil, err
	}
	k.options.Logger.Info("A data key was made. It seals everything in the data directory.", "path", k.path(),
		"sealed_with", with)
	return k.ring, nil
}

// open returns the data keys in data.key.
func (k *Keyring) open(stored file) ([]seal.Key, error) {
	candidates, err := k.method.open(stored.Parameters)
	if err != nil {
		return nil, &Error{Reason: err.Error(), Err: errors.Join(ErrNoKey, err)}
	}
	for _, key := range candidates {
		ring, err := seal.NewRing(seal.Key{Number: keyEncryptionNo, Secret: key})
		if err != nil {
			continue
		}
		text, err := ring.Open(stored.Keys, []byte(keyringContext))
		if err != nil {
			continue
		}
		var keys []seal.Key
		if err := json.Unmarshal(text, &keys); err != nil {
			return nil, newError(err, "The file %s is damaged; restore it from a backup.", k.path())
		}
		k.wrap = wrap{with: stored.With, key: key, parameters: stored.Parameters}
		return keys, nil
	}
	return nil, k.method.wrong()
}

// write seals data keys with a new key-encryption key and replaces data.key.
func (k *Keyring) write(keys []seal.Key) error {
	key, parameters, err := k.method.create()
	if err != nil {
		return err
	}
	next := wrap{with: k.method.name(), key: key, parameters: parameters}
	if err := k.store(keys, next); err != nil {
		return err
	}
	k.wrap = next
	return k.method.keepOnly(key)
}

// store replaces data.key.
func (k *Keyring) store(keys []seal.Key, w wrap) error {
	content, err := sealKeys(keys, w)
	if err != nil {
		return err
	}
	return replaceFile(k.path(), content)
}

// sealKeys returns the content of data.key.
func sealKeys(keys []seal.Key, w wrap) ([]byte, error) {
	text, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	ring, err := seal.NewRing(seal.Key{Number: keyEncryptionNo, Secret: w.key})
	if err != nil {
		return nil, err
	}
	sealed, err := ring.Seal(nil, text, []byte(keyringContext))
	if err != nil {
		return nil, err
	}
	content, err := json.MarshalIndent(file{fileVersion, w.with, w.parameters, sealed}, "", "  ")
	return append(content, '\n'), err
}

// change seals the data keys with another method.
func (k *Keyring) change(with Method) error {
	next, err := k.newMethod(with)
	if err != nil {
		return err
	}
	previous := k.method
	k.method = next
	if err := k.write(k.ring.Keys()); err != nil {
		return err
	}
	k.options.Logger.Info("The data key is sealed in another way.", "before", previous.name(), "now", with)
	// The data opens with the new key already, so a former key on a read-only medium does not stop
	// the appliance.
	if err := previous.remove(); err != nil {
		k.options.Logger.Warn("The former key of the data key could not be removed; remove it yourself, because it "+
			"opens older copies of "+FileName+".", "sealed_with", previous.name(), "error", err)
	}
	return nil
}

// Sealed is stored data that Rotate seals again.
type Sealed interface {
	// Reseal seals everything again that was not sealed with the newest key.
	Reseal(ctx context.Context) error
}

// Rotate makes a new data key, seals everything again with it, and forgets the older keys. It also
// makes a new key-encryption key; the former one of the method File stays in a file beside the key
// file. The data stays in use meanwhile. If Rotate is interrupted, Resume
// completes it.
func (k *Keyring) Rotate(ctx context.Context, data ...Sealed) error {
	k.rotating.Lock()
	defer k.rotating.Unlock()
	k.mu.Lock()
	err := k.addKey()
	k.mu.Unlock()
	if err != nil {
		return fmt.Errorf("make a new data key: %w", err)
	}
	return k.complete(ctx, data)
}

func (k *Keyring) addKey() error {
	key := seal.NewKey(k.ring.Current() + 1)
	if err := k.write(append(k.ring.Keys(), key)); err != nil {
		return err
	}
	return k.ring.Add(key)
}

// Resume completes an interrupted rotation. It does nothing if there is none.
func (k *Keyring) Resume(ctx context.Context, data ...Sealed) error {
	k.rotating.Lock()
	defer k.rotating.Unlock()
	if len(k.Ring().Keys()) == 1 {
		return nil
	}
	return k.complete(ctx, data)
}

// Completion returns a function that completes an interrupted rotation at the start. Its failure is
// logged and does not stop the appliance, because the older key still works.
func (k *Keyring) Completion(data ...Sealed) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := k.Resume(ctx, data...); err != nil && ctx.Err() == nil {
			k.options.Logger.Error("The rotation of the data key could not be completed; it continues at the next "+
				"start.", "error", err)
		}
		return nil
	}
}

func (k *Keyring) complete(ctx context.Context, data []Sealed) error {
	for _, each := range data {
		if err := each.Reseal(ctx); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	keys := k.ring.Keys()
	newest := keys[len(keys)-1]
	// The ring keeps the older keys for reads that began before. A new start does not need them.
	if err := k.store([]seal.Key{newest}, k.wrap); err != nil {
		return err
	}
	k.options.Logger.Info("Everything is sealed with the new data key.", "number", newest.Number)
	return nil
}

// replaceFile writes a file that only its owner may read.
func replaceFile(path string, content []byte) error {
	if err := durable.WriteFile(path, content, 0o600); err != nil {
		return newError(err, "The file %s can't be written: %v.", path, err)
	}
	return nil
}
