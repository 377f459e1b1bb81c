package keyring

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"
	"golang.org/x/term"

	"landfall/store/seal"
)

// Method says with what the data keys are sealed.
type Method string

// Methods.
const (
	File       Method = "file"
	Passphrase Method = "passphrase"
	Credential Method = "credential"
	TPM        Method = "tpm"
)

// Methods returns all methods.
func Methods() []Method { return []Method{File, Passphrase, Credential, TPM} }

// method creates and finds key-encryption keys.
type method interface {
	name() Method
	// create returns a new key-encryption key, and the parameters with which open finds it.
	create() (key []byte, parameters json.RawMessage, err error)
	// open returns the keys that may fit.
	open(parameters json.RawMessage) (keys [][]byte, err error)
	// wrong returns the error for keys that do not fit.
	wrong() *Error
	// keepOnly removes older keys from the disk, once data.key is sealed with a key.
	keepOnly(key []byte) error
	// remove removes all keys from the disk, once data.key is sealed with another method.
	remove() error
}

func (k *Keyring) newMethod(name Method) (method, error) {
	switch name {
	case File:
		return &keyFile{path: k.options.KeyFile, now: k.options.Now}, nil
	case Passphrase:
		return &passphrase{file: k.options.PassphraseFile}, nil
	case Credential:
		return &credential{dir: k.options.CredentialsDirectory}, nil
	case TPM:
		return &tpmMethod{device: k.options.TPMDevice}, nil
	}
	return nil, newError(nil, "The data key is sealed with %q, which this Landfall does not know; use a newer "+
		"Landfall, or restore %s from a backup if the file is damaged.", name, FileName)
}

// keyFile is the method File. The file has a key in each line, the newest first. It has several
// keys only while data.key is replaced.
type keyFile struct {
	path string
	now  func() time.Time
}

func (*keyFile) name() Method { return File }

func (f *keyFile) read() ([][]byte, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, newError(nil,
			"The key file %s has the mode %04o, so others may have read it; set the mode to 0600.", f.path, mode)
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, err
	}
	var keys [][]byte
	for line := range strings.FieldsSeq(string(text)) {
		if key, err := base64.StdEncoding.DecodeString(line); err == nil {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func (f *keyFile) write(keys ...[]byte) error {
	var text bytes.Buffer
	for _, key := range keys {
		fmt.Fprintln(&text, base64.StdEncoding.EncodeToString(key))
	}
	return replaceFile(f.path, text.Bytes())
}

func (f *keyFile) create() ([]byte, json.RawMessage, error) {
	older, err := f.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, f.unreadable(err)
	}
	key := seal.NewKey(1).Secret
	return key, nil, f.write(slices.Insert(older, 0, key)...)
}

func (f *keyFile) unreadable(err error) error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	return newError(err, "The key file %s, with which the data key is sealed, can't be read (%v); restore the file, "+
		"or name it with seal.key_file or LANDFALL_SEAL_KEY_FILE.", f.path, err)
}

func (f *keyFile) open(json.RawMessage) ([][]byte, error) {
	keys, err := f.read()
	if err != nil {
		return nil, f.unreadable(err)
	}
	return keys, nil
}

func (f *keyFile) wrong() *Error {
	return newError(ErrWrong, "The key file %s does not fit the data key: it or %s is damaged, or belongs to another "+
		"data directory; restore that file from a backup. Nothing was changed.", f.path, FileName)
}

// keepOnly removes the former keys from the file. They stay in a file of their own, because backups
// that were made before need them.
func (f *keyFile) keepOnly(key []byte) error {
	former, err := f.read()
	if err != nil {
		return f.unreadable(err)
	}
	former = slices.DeleteFunc(former, func(each []byte) bool { return bytes.Equal(each, key) })
	if len(former) > 0 {
		aside := &keyFile{path: f.path + ".former-" + f.now().UTC().Format("20060102T150405.000Z")}
		if err := aside.write(former...); err != nil {
			return err
		}
	}
	return f.write(key)
}

func (f *keyFile) remove() error { return os.Remove(f.path) }

// The cost of argon2id: the second recommendation of RFC 9106, section 4.
const (
	argonTime    = 3
	argonMemory  = 64 << 10 // KiB
	argonThreads = 4
	saltSize     = 16
)

type argonParameters struct {
	Salt    []byte `json:"salt"`
	Time    uint32 `json:"time"`
	Memory  uint32 `json:"memory_kib"`
	Threads uint8  `json:"threads"`
}

// passphrase is the method Passphrase.
type passphrase struct {
	file   string
	phrase []byte // after it was read
}

func (*passphrase) name() Method { return Passphrase }

// read reads the passphrase from the file or the terminal. A new passphrase is asked for twice.
func (p *passphrase) read(isNew bool) error {
	if p.phrase != nil {
		return nil
	}
	phrase, err := p.ask(isNew)
	if err != nil {
		return err
	}
	if len(phrase) == 0 {
		return newError(nil, "The passphrase of the data key is empty; give one.")
	}
	p.phrase = phrase
	return nil
}

func (p *passphrase) ask(isNew bool) ([]byte, error) {
	if p.file != "" {
		text, err := os.ReadFile(p.file)
		if err != nil {
			return nil, newError(err, "The file %s with the passphrase of the data key can't be read (%v).", p.file,
				err)
		}
		return bytes.TrimRight(text, "\r\n"), nil
	}
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, newError(err, "The data key needs a passphrase, and there is no terminal to ask for it; name a "+
			"file with it by seal.passphrase_file or LANDFALL_SEAL_PASSPHRASE_FILE.")
	}
	defer terminal.Close()
	phrase, err := askOn(terminal, "Passphrase of the data key: ")
	if err != nil || !isNew {
		return phrase, err
	}
	again, err := askOn(terminal, "The same passphrase again: ")
	if err == nil && !bytes.Equal(phrase, again) {
		err = newError(nil, "The two passphrases differ; start again.")
	}
	return phrase, err
}

func askOn(terminal *os.File, question string) ([]byte, error) {
	fmt.Fprint(terminal, question)
	phrase, err := term.ReadPassword(int(terminal.Fd()))
	fmt.Fprintln(terminal)
	if err != nil {
		return nil, newError(err, "The passphrase of the data key can't be read from the terminal (%v).", err)
	}
	return phrase, nil
}

func (p *passphrase) derive(a argonParameters) []byte {
	return argon2.IDKey(p.phrase, a.Salt, a.Time, a.Memory, a.Threads, seal.KeySize)
}

func (p *passphrase) create() ([]byte, json.RawMessage, error) {
	if err := p.read(true); err != nil {
		return nil, nil, err
	}
	a := argonParameters{make([]byte, saltSize), argonTime, argonMemory, argonThreads}
	rand.Read(a.Salt)
	parameters, err := json.Marshal(a)
	return p.derive(a), parameters, err
}

func (p *passphrase) open(parameters json.RawMessage) ([][]byte, error) {
	var a argonParameters
	if err := json.Unmarshal(parameters, &a); err != nil || a.Time == 0 || a.Threads == 0 || a.Memory > 4<<20 {
		return nil, newError(err, "The parameters of the passphrase in %s are damaged; restore the file from a backup.",
			FileName)
	}
	if err := p.read(false); err != nil {
		return nil, err
	}
	return [][]byte{p.derive(a)}, nil
}

func (p *passphrase) wrong() *Error {
	p.phrase = nil
	return newError(ErrWrong, "The passphrase does not fit the data key; give the right one, or restore %s from a "+
		"backup if the file is damaged. Nothing was changed.", FileName)
}

func (*passphrase) keepOnly([]byte) error { return nil }

func (*passphrase) remove() error { return nil }

// CredentialName is the name of systemd's credential.
const CredentialName = "landfall.key"

// credential is the method Credential.
type credential struct{ dir string }

func (*credential) name() Method { return Credential }

func (c *credential) create() ([]byte, json.RawMessage, error) {
	salt := make([]byte, saltSize)
	rand.Read(salt)
	parameters, err := json.Marshal(argonParameters{Salt: salt})
	if err != nil {
		return nil, nil, err
	}
	keys, err := c.open(parameters)
	if err != nil {
		return nil, nil, err
	}
	return keys[0], parameters, nil
}

func (c *credential) open(parameters json.RawMessage) ([][]byte, error) {
	var p argonParameters
	if err := json.Unmarshal(parameters, &p); err != nil {
		return nil, newError(err, "The parameters of the credential in %s are damaged; restore the file from a backup.",
			FileName)
	}
	if c.dir == "" {
		return nil, newError(nil, "The data key needs the credential %s, but systemd passed no credentials; add "+
			"LoadCredentialEncrypted=%s to the unit.", CredentialName, CredentialName)
	}
	text, err := os.ReadFile(filepath.Join(c.dir, CredentialName))
	if err != nil {
		return nil, newError(err, "The data key needs the credential %s, but systemd did not pass it (%v).",
			CredentialName, err)
	}
	if len(text) < seal.KeySize {
		return nil, newError(nil, "The credential %s has %d bytes; it must have at least %d random bytes.",
			CredentialName, len(text), seal.KeySize)
	}
	key, err := hkdf.Key(sha256.New, text, p.Salt, keyringContext, seal.KeySize)
	return [][]byte{key}, err
}

func (c *credential) wrong() *Error {
	return newError(ErrWrong, "The credential %s does not fit the data key; pass the credential that belongs to this "+
		"data directory, or restore %s from a backup if the file is damaged. Nothing was changed.", CredentialName,
		FileName)
}

func (*credential) keepOnly([]byte) error { return nil }

func (*credential) remove() error { return nil }
