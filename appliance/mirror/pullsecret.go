package mirror

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// PullSecret holds credentials for registries in the form of a Docker or podman config.json. It is
// an authn.Keychain and never prints its content.
type PullSecret struct {
	// entries holds the credentials by registry or repository without a scheme: "quay.io",
	// "mirror.example.com:5000/team".
	entries map[string]authn.AuthConfig
}

// ErrNoCredentials is wrapped by the error of Require if the pull secret has no entry for a
// registry.
var ErrNoCredentials = errors.New("no credentials")

// ParsePullSecret parses {"auths":{"registry":{"auth":"base64 of user:password"}}}. The error is
// one sentence without secrets. Entries without credentials, for credential helpers, are kept but
// not used.
func ParsePullSecret(text string) (*PullSecret, error) {
	var file struct {
		Auths map[string]*pullSecretEntry `json:"auths"`
	}
	if strings.TrimSpace(text) == "" {
		return nil, errors.New(`the pull secret is empty; it must look like {"auths":{"registry":{"auth":"…"}}}`)
	}
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) {
			return nil,
				fmt.Errorf(`the pull secret has a JSON %s at %q; it must look like {"auths":{"registry":{"auth":"…"}}}`,
					mismatch.Value, mismatch.Field)
		}
		return nil, fmt.Errorf(`the pull secret is not JSON; it must look like {"auths":{"registry":{"auth":"…"}}}`)
	}
	if file.Auths == nil {
		return nil, errors.New(`the pull secret has no "auths"; it must look like {"auths":{"registry":{"auth":"…"}}}`)
	}
	secret := &PullSecret{entries: map[string]authn.AuthConfig{}}
	for key, entry := range file.Auths {
		config, err := entry.config()
		if err != nil {
			return nil, fmt.Errorf("the pull secret's entry for %q: %w", key, err)
		}
		normal := normalKey(key)
		if normal == "" {
			return nil, fmt.Errorf("the pull secret has an entry for %q, which is not the name of a registry", key)
		}
		if old, taken := secret.entries[normal]; taken && usable(old) && !usable(config) {
			continue
		}
		secret.entries[normal] = config
	}
	return secret, nil
}

// AddCredentials returns a pull secret with an entry for a registry, unless it has one. The given
// secret may be "".
func AddCredentials(secret, registry, user, password string) (string, error) {
	file := map[string]json.RawMessage{}
	auths := map[string]json.RawMessage{}
	if strings.TrimSpace(secret) != "" {
		if _, err := ParsePullSecret(secret); err != nil {
			return "", err
		}
		if err := errors.Join(json.Unmarshal([]byte(secret), &file), json.Unmarshal(file["auths"],
			&auths)); err != nil {
			return "", fmt.Errorf("add credentials to the pull secret: %w", err)
		}
	}
	if auths[registry] != nil {
		return secret, nil
	}
	entry, err := json.Marshal(map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(user + ":" +
		password))})
	if err != nil {
		return "", err
	}
	auths[registry] = entry
	if file["auths"], err = json.Marshal(auths); err != nil {
		return "", err
	}
	text, err := json.Marshal(file)
	return string(text), err
}

type pullSecretEntry struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

func (e *pullSecretEntry) config() (authn.AuthConfig, error) {
	if e == nil {
		return authn.AuthConfig{}, nil
	}
	config := authn.AuthConfig{Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken,
		RegistryToken: e.RegistryToken}
	auth := strings.TrimSpace(e.Auth)
	if auth == "" {
		return config, nil
	}
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(auth, "="))
	if err != nil {
		return authn.AuthConfig{}, errors.New("auth is not base64; it must be the base64 of user:password")
	}
	user, password, ok := strings.Cut(string(decoded), ":")
	if !ok {
		return authn.AuthConfig{}, errors.New("auth has no colon once decoded; it must be the base64 of user:password")
	}
	config.Username, config.Password = user, strings.TrimRight(password, "\x00")
	return config, nil
}

// normalKey removes the additions of old Docker files to a registry's name: a scheme, /v1/ or /v2/,
// and the index of Docker Hub.
func normalKey(key string) string {
	key = strings.TrimSpace(key)
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	key = strings.TrimRight(key, "/")
	host, path, _ := strings.Cut(key, "/")
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		host = dockerHub
	}
	if path == "v1" || path == "v2" || path == "" {
		return host
	}
	return host + "/" + path
}

func usable(c authn.AuthConfig) bool {
	return c.Username != "" || c.Password != "" || c.IdentityToken != "" || c.RegistryToken != ""
}

// Has reports whether the pull secret has credentials for a registry ("host", "host:port") or
// repository ("host/path").
func (s *PullSecret) Has(registry string) bool {
	_, ok := s.lookup(registry)
	return ok
}

// Require returns an error if the pull secret has no credentials for the registry or repository.
// The error wraps ErrNoCredentials and lists the existing entries.
func (s *PullSecret) Require(registry string) error {
	if s.Has(registry) {
		return nil
	}
	if s != nil {
		if _, empty := s.entries[normalKey(registry)]; empty {
			return fmt.Errorf("the pull secret's entry for %s is empty; add its auth, because Landfall "+
				"can't use credential helpers: %w", registry, ErrNoCredentials)
		}
	}
	have := "it has no entries"
	if registries := s.Registries(); len(registries) > 0 {
		have = "it has " + strings.Join(registries, ", ")
	}
	return fmt.Errorf("the pull secret has no entry for %s (%s): %w", registry, have, ErrNoCredentials)
}

// Registries returns the sorted registries and repositories with credentials.
func (s *PullSecret) Registries() []string {
	if s == nil {
		return nil
	}
	var names []string
	for key, config := range s.entries {
		if usable(config) {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return names
}

// Resolve implements authn.Keychain. It returns the entry of the repository, of its nearest
// namespace, or of the registry; anonymous if there is none.
func (s *PullSecret) Resolve(target authn.Resource) (authn.Authenticator, error) {
	config, ok := s.lookup(target.String())
	if !ok {
		return authn.Anonymous, nil
	}
	return authn.FromConfig(config), nil
}

func (s *PullSecret) lookup(target string) (authn.AuthConfig, bool) {
	if s == nil {
		return authn.AuthConfig{}, false
	}
	for key := normalKey(target); key != ""; {
		if config, ok := s.entries[key]; ok && usable(config) {
			return config, true
		}
		slash := strings.LastIndexByte(key, '/')
		key = key[:max(slash, 0)]
	}
	return authn.AuthConfig{}, false
}

// String returns the registries without the credentials.
func (s *PullSecret) String() string {
	return "pull secret for " + strings.Join(s.Registries(), ", ")
}

// GoString prevents %#v from printing credentials.
func (s *PullSecret) GoString() string { return s.String() }

// LogValue prevents logs from containing credentials.
func (s *PullSecret) LogValue() slog.Value { return slog.StringValue(s.String()) }
