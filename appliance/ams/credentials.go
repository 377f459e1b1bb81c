package ams

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/crypto/chacha20poly1305"

	"landfall/appliance/durable"
	"landfall/appliance/fault"
	"landfall/appliance/process"
	"landfall/store"
)

// KeyFile is the name of the file in the data directory with the key that encrypts the credentials
// for AMS. Anyone with it, the database and the data key can act as the site.
const KeyFile = "ams.key"

// CredentialFiles names files with credentials. They are read at each use. Each field may be empty.
type CredentialFiles struct {
	OfflineToken string
	ClientID     string // the ID itself, not a file
	ClientSecret string
}

// CredentialStore holds the credentials: those in the files that the configuration names or,
// without such files, those that a person entered. It stores entered credentials encrypted.
type CredentialStore struct {
	db    *store.DB
	key   string // path
	files CredentialFiles
	mu    sync.Mutex // held while the stored credentials are replaced
}

// NewCredentialStore returns a store of credentials with its key in the data directory dir. It does
// not create the key file yet.
func NewCredentialStore(db *store.DB, dir string, files CredentialFiles) *CredentialStore {
	return &CredentialStore{db: db, key: filepath.Join(dir, KeyFile), files: files}
}

// CreateKey creates a missing key file in the data directory dir, so that machines that copy the
// directory have the same key.
func CreateKey(dir string) error {
	_, err := loadKey(filepath.Join(dir, KeyFile), true)
	return err
}

// sealed is a sealed secret in the store.
type sealed struct {
	Nonce []byte `json:"nonce"`
	Box   []byte `json:"box"` // XChaCha20-Poly1305
}

// content is the plain text of a sealed secret.
type content struct {
	Secret
	// SHA-256 of the token file that the stored token replaces
	Replaces string `json:"replaces,omitempty"`
}

var sealedRows = store.NewBucket[sealed]("sealed", 1)

const sealedKey = "ams"

// Secret implements [Credentials].
func (v *CredentialStore) Secret(context.Context) (Secret, error) {
	held, err := v.open()
	if err != nil {
		return Secret{}, err
	}
	switch {
	case v.files.OfflineToken != "":
		token, err := readSecret(v.files.OfflineToken)
		if err == nil && held.Replaces == fingerprint(token) {
			return Secret{OfflineToken: held.OfflineToken}, nil
		}
		return Secret{OfflineToken: token}, err
	case v.files.ClientSecret != "":
		secret, err := readSecret(v.files.ClientSecret)
		return Secret{ClientID: v.files.ClientID, ClientSecret: secret}, err
	}
	return held.Secret, nil
}

// Rotate implements [Credentials].
func (v *CredentialStore) Rotate(ctx context.Context, old, fresh string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	rotated := content{Secret: Secret{OfflineToken: fresh}}
	if v.files.OfflineToken != "" {
		token, err := readSecret(v.files.OfflineToken)
		if err != nil {
			return err
		}
		rotated.Replaces = fingerprint(token)
	}
	if present, err := v.Secret(ctx); err != nil || present.OfflineToken != old {
		return err
	}
	return v.seal(ctx, rotated)
}

// Remedy implements [Credentials].
func (v *CredentialStore) Remedy() string {
	const noticed = "; Landfall notices the new file within a minute."
	switch {
	case v.files.OfflineToken != "":
		return "Write a valid offline token to " + v.files.OfflineToken + noticed
	case v.files.ClientSecret != "":
		return "Write the secret of the service account " + v.files.ClientID + " to " + v.files.ClientSecret + noticed
	}
	return "Enter new credentials with landfall ams login or on the page."
}

// ErrConfigured is returned for entered credentials if the configuration names files with
// credentials.
var ErrConfigured = fault.Sentinel(fault.Conflict,
	"the configuration names files with the credentials for AMS; change these files, or remove "+
		"ams.offline_token_file and ams.client_secret_file from the configuration")

// SetCredentials stores entered credentials. Empty ones delete the stored credentials.
func (v *CredentialStore) SetCredentials(ctx context.Context, secret Secret) error {
	if v.files != (CredentialFiles{}) {
		return ErrConfigured
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if secret.Empty() {
		return v.db.Update(ctx, func(tx *store.Tx) error { return sealedRows.Delete(tx, sealedKey) })
	}
	return v.seal(ctx, content{Secret: secret})
}

func (v *CredentialStore) seal(ctx context.Context, what content) error {
	key, err := loadKey(v.key, true)
	if err != nil {
		return err
	}
	plain, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("seal the credentials for AMS: %w", err)
	}
	box, err := chacha20poly1305.NewX(key)
	if err != nil {
		return fmt.Errorf("seal the credentials for AMS: %w", err)
	}
	row := sealed{Nonce: make([]byte, box.NonceSize())}
	if _, err := rand.Read(row.Nonce); err != nil {
		return fmt.Errorf("seal the credentials for AMS: %w", err)
	}
	row.Box = box.Seal(nil, row.Nonce, plain, []byte(sealedKey))
	return v.db.Update(ctx, func(tx *store.Tx) error { return sealedRows.Put(tx, sealedKey, &row) })
}

func (v *CredentialStore) open() (content, error) {
	var row *sealed
	err := v.db.View(func(tx *store.Tx) (err error) {
		row, err = sealedRows.Get(tx, sealedKey)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return content{}, nil
	}
	if err != nil {
		return content{}, err
	}
	key, err := loadKey(v.key, false)
	if errors.Is(err, fs.ErrNotExist) {
		return content{}, nil // the database was restored without the key: the credentials must be entered again
	}
	if err != nil {
		return content{}, err
	}
	box, err := chacha20poly1305.NewX(key)
	if err != nil || len(row.Nonce) != box.NonceSize() {
		return content{},
			fmt.Errorf("%s is not the key that the credentials for AMS were sealed with; restore the right key, or "+
				"enter the credentials again", v.key)
	}
	plain, err := box.Open(nil, row.Nonce, row.Box, []byte(sealedKey))
	if err != nil {
		return content{},
			fmt.Errorf("%s is not the key that the credentials for AMS were sealed with; restore the right key, or "+
				"enter the credentials again", v.key)
	}
	var held content
	if err := json.Unmarshal(plain, &held); err != nil {
		return content{}, errors.New("the sealed credentials for AMS cannot be read; enter them again")
	}
	return held, nil
}

// loadKey reads a key file. If create is true, it creates a missing file.
func loadKey(path string, create bool) ([]byte, error) {
	text, err := readOwn(path)
	if errors.Is(err, fs.ErrNotExist) && create {
		key := make([]byte, chacha20poly1305.KeySize)
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("create the key of the credentials for AMS: %w", err)
		}
		return key, durable.WriteFile(path, []byte(hex.EncodeToString(key)+"\n"), 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of the credentials for AMS: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != chacha20poly1305.KeySize {
		return nil,
			fmt.Errorf("%s is not a key: expected %d hexadecimal digits; restore the right file, or delete it and "+
				"enter the credentials again", path, 2*chacha20poly1305.KeySize)
	}
	return key, nil
}

// readOwn reads a file. It rejects a file that other users than its owner may read.
func readOwn(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && !process.IsCredential(path) {
		return nil, fmt.Errorf("%s has mode %04o, so other users may read it; set its mode to 0600", path, mode)
	}
	return os.ReadFile(path)
}

func readSecret(path string) (string, error) {
	text, err := readOwn(path)
	if err != nil {
		return "", fmt.Errorf("read the credentials for AMS: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("read the credentials for AMS: %s is empty", path)
	}
	return secret, nil
}

func fingerprint(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
