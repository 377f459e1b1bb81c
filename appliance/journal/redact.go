package journal

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"landfall/ignition"
)

// Redacted replaces a secret.
const Redacted = "[redacted]"

// Secrets collects secrets that must not leave the site. The zero value is ready to use.
type Secrets struct {
	// Open returns the plain text of an encrypted text, and any other text unchanged. nil means
	// that no text is encrypted.
	Open  func(text string) (string, error)
	known map[string]bool
}

// shortestSecret is the minimum length in bytes of a secret that is replaced in all texts. A
// shorter secret is removed only from secret fields: replacing it everywhere would make texts
// unreadable.
const shortestSecret = 6

// Add collects a secret in all encodings in which it may occur.
func (s *Secrets) Add(secret string) {
	secret = strings.TrimSpace(secret)
	if len(secret) < shortestSecret || secret == Redacted {
		return
	}
	if s.known == nil {
		s.known = make(map[string]bool)
	}
	for range 3 { // plain, in JSON, and in JSON within JSON
		s.known[secret] = true
		quoted, err := json.Marshal(secret)
		if err != nil {
			return
		}
		secret = string(quoted[1 : len(quoted)-1])
	}
}

// AddPullSecret collects a pull secret and its credentials.
func (s *Secrets) AddPullSecret(text string) {
	if s.Open != nil {
		open, err := s.Open(text)
		if err != nil {
			return // encrypted with a lost key, so it cannot be disclosed
		}
		text = open
	}
	s.Add(text)
	var file struct {
		Auths map[string]map[string]any `json:"auths"`
	}
	if json.Unmarshal([]byte(text), &file) != nil {
		return
	}
	for _, entry := range file.Auths {
		for name, value := range entry {
			text, ok := value.(string)
			if !ok || name == "email" {
				continue
			}
			s.Add(text)
			if decoded, err := base64.StdEncoding.DecodeString(text); err == nil && name == "auth" {
				_, password, _ := strings.Cut(string(decoded), ":")
				s.Add(string(decoded))
				s.Add(password)
			}
		}
	}
}

// AddFrom collects the secrets in an object, which it identifies by the names of fields.
func (s *Secrets) AddFrom(text []byte) error {
	value, err := decode(text)
	if err == nil {
		s.walk(value)
	}
	return err
}

func (s *Secrets) walk(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if text, ok := member.(string); ok && strings.Contains(plain(name), "pullsecret") {
				s.AddPullSecret(text)
			}
			if text, ok := member.(string); ok && networkField(name) {
				for _, secret := range ignition.NetworkSecrets(text) {
					s.Add(secret)
				}
			}
			if secretField(name) {
				s.all(member)
				continue
			}
			s.walk(member)
		}
	case []any:
		for _, member := range value {
			s.walk(member)
		}
	case string:
		for _, found := range userInfo.FindAllStringSubmatch(value, -1) {
			_, password, _ := strings.Cut(found[2], ":")
			s.Add(password)
		}
		if inner, ok := nested(value); ok {
			s.walk(inner)
		}
	}
}

// all collects every text in a value.
func (s *Secrets) all(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, member := range value {
			s.all(member)
		}
	case []any:
		for _, member := range value {
			s.all(member)
		}
	case string:
		s.Add(value)
	}
}

// Redactor returns a redactor for the collected secrets.
func (s *Secrets) Redactor() *Redactor {
	list := make([]string, 0, len(s.known))
	for secret := range s.known {
		list = append(list, secret)
	}
	slices.SortFunc(list, func(a, b string) int { // the longest first, because a secret may contain another one
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(list))
	for _, secret := range list {
		pairs = append(pairs, secret, Redacted)
	}
	return &Redactor{literals: strings.NewReplacer(pairs...)}
}

// Redactor removes secrets from objects and texts. It recognizes a secret by the name of its field,
// by its form, or because it was collected.
type Redactor struct {
	literals *strings.Replacer
}

func (r *Redactor) read(text []byte) (any, error) {
	value, err := decode(text)
	if err != nil {
		return nil, err
	}
	return r.value(value), nil
}

func (r *Redactor) value(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			switch {
			case secretField(name):
				value[name] = blank(member)
			case opaqueField(name):
				value[name] = opaque(member)
			case networkField(name):
				value[name] = r.network(member)
			default:
				value[name] = r.value(member)
			}
		}
	case []any:
		for i := range value {
			value[i] = r.value(value[i])
		}
	case string:
		if inner, ok := nested(value); ok {
			if text, err := canonical(r.value(inner)); err == nil {
				return string(text)
			}
		}
		return r.Text(value)
	}
	return value
}

// nested decodes a text that contains a JSON object or list.
func nested(text string) (any, bool) {
	text = strings.TrimSpace(text)
	if len(text) < 2 || text[0] != '{' && text[0] != '[' {
		return nil, false
	}
	value, err := decode([]byte(text))
	return value, err == nil
}

// blank replaces all texts in a value and keeps its structure.
func blank(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			value[name] = blank(member)
		}
	case []any:
		for i := range value {
			value[i] = blank(value[i])
		}
	case string:
		if value != "" {
			return Redacted
		}
	}
	return value
}

// opaque replaces a text that may contain secrets in any form.
func opaque(value any) any {
	if text, ok := value.(string); ok && text != "" {
		return Redacted
	}
	return value
}

// network removes the secrets from a network description, also those that are too short for
// [Secrets.Add].
func (r *Redactor) network(value any) any {
	if text, ok := value.(string); ok {
		value = strings.ReplaceAll(ignition.HideNetworkSecrets(text), ignition.HiddenSecret, Redacted)
	}
	return r.value(value)
}

// plain returns a field's name in lower case and without separators.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

// secretField reports whether the texts of a field with this name are secrets.
func secretField(name string) bool {
	name = plain(name)
	switch name {
	case "code", "auth", "auths", "psk", "authorization", "ignitionendpointheaders":
		return true
	}
	for _, part := range []string{"password", "passwd", "pullsecret", "secret", "token", "privatekey", "kubeconfig",
		"apikey", "credential", "signingkey", "clientkey", "passphrase", "mkacak"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// opaqueField reports whether a field contains free-form configuration, which may contain secrets
// in any form.
func opaqueField(name string) bool {
	switch plain(name) {
	case "ignitionconfigoverride", "ignitionconfigoverrides", "uisettings":
		return true
	}
	return false
}

// networkField reports whether a field contains a network description in YAML.
func networkField(name string) bool { return plain(name) == "networkyaml" }

var (
	userInfo   = regexp.MustCompile(`(\w[\w+.-]*://)([^\s/@"'\\]+)@`)
	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)
	jwt        = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)
	crypted    = regexp.MustCompile(`\$(?:[1-9][a-z]?|y|gy)\$[./A-Za-z0-9$=,-]{10,}`)
	bearer     = regexp.MustCompile(`(?i)\b(bearer|basic) +[A-Za-z0-9+/=._~-]{16,}`)
	named      = regexp.MustCompile(
		`(?i)((?:password|passwd|passphrase|secret|token|psk|auth|api_?key|private_?key|client-key-data|signature)\\*["']?\s*[:=]\s*\\*["']?)([^\s"'\\,;&}{\[\]]+)`)
)

// Text removes secrets from a text: collected secrets, passwords in URLs, private keys, tokens,
// password hashes, and values after the name of a secret.
func (r *Redactor) Text(text string) string {
	if len(text) < 4 {
		return text
	}
	text = r.literals.Replace(text)
	if strings.Contains(text, "://") {
		text = userInfo.ReplaceAllString(text, "${1}"+Redacted+"@")
	}
	if strings.Contains(text, "PRIVATE KEY") {
		text = privateKey.ReplaceAllString(text, Redacted)
	}
	if strings.Contains(text, "eyJ") {
		text = jwt.ReplaceAllString(text, Redacted)
	}
	if strings.Contains(text, "$") {
		text = crypted.ReplaceAllString(text, Redacted)
	}
	// These expressions are slow, and most texts do not match.
	lower := strings.ToLower(text)
	if strings.Contains(lower, "bearer") || strings.Contains(lower, "basic") {
		text = bearer.ReplaceAllString(text, "${1} "+Redacted)
	}
	for _, hint := range []string{"pass", "secret", "token", "psk", "auth", "key", "signature"} {
		if strings.Contains(lower, hint) {
			return named.ReplaceAllString(text, "${1}"+Redacted)
		}
	}
	return text
}
