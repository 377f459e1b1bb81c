package ignition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// HiddenSecret replaces a hidden password or key. As YAML it is a mapping, so it can also replace a
// whole description.
const HiddenSecret = "hidden: only administrators can read it"

// secretWords are in the keys of the secrets in nmstate: 802.1x.password, private-key-password,
// libreswan.psk, macsec.mka-cak. A description without them has no secrets, except for private keys
// that are given themselves instead of the paths of their files.
var secretWords = []string{"password", "passphrase", "psk", "mka-cak", "secret", "private-key"}

// mayHaveSecrets reports whether a description may have secrets. A backslash can begin the code of
// a letter in a key.
func mayHaveSecrets(text string) bool {
	if strings.ContainsRune(text, '\\') {
		return true
	}
	lower := strings.ToLower(text)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(lower, word) })
}

// HideNetworkSecrets returns a network description with [HiddenSecret] instead of each password and
// key. A description with secrets is shown without its comments, which may contain secrets too.
func HideNetworkSecrets(text string) string {
	if !mayHaveSecrets(text) {
		return text
	}
	root, fault := readDocument(text)
	if fault != nil {
		return HiddenSecret
	}
	if changed, _ := hideSecrets(root); !changed {
		return text
	}
	hidden, err := encodeNetwork(root)
	if err != nil {
		return HiddenSecret
	}
	return hidden
}

// StoredNetworkWithoutSecrets returns what [HideNetworkSecrets] makes of a description after
// [RestoreNetworkSecrets] has restored its hidden secrets and it was stored. ok is false for a
// description without secrets and comments, and for an invalid one.
func StoredNetworkWithoutSecrets(text string) (hidden string, ok bool) {
	if !mayHaveSecrets(text) {
		return "", false
	}
	root, fault := readDocument(text)
	if fault != nil {
		return "", false
	}
	changed, hasSecrets := hideSecrets(root)
	if !changed && !hasSecrets {
		return "", false
	}
	hidden, err := encodeNetwork(root)
	return hidden, err == nil
}

// hideSecrets hides the secrets in a document and removes its comments.
func hideSecrets(root *yaml.Node) (changed, hasSecrets bool) {
	changed = removeComments(root)
	eachSecret(root, secretAt{}, false, func(_ secretAt, secret *yaml.Node) {
		hasSecrets = true
		if secret.Value != HiddenSecret {
			*secret = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: HiddenSecret, Style: yaml.DoubleQuotedStyle}
			changed = true
		}
	})
	return changed, hasSecrets
}

// RestoreNetworkSecrets replaces each [HiddenSecret] in a network description by the secret that
// the stored description has there. It returns a *NetworkFault if there is no such secret.
func RestoreNetworkSecrets(text, stored string) (string, error) {
	if !mayHaveSecrets(text) && text != HiddenSecret {
		return text, nil
	}
	if text == HideNetworkSecrets(stored) {
		return stored, nil
	}
	root, fault := readDocument(text)
	if fault != nil {
		return text, nil //nolint:nilerr // the check of the description reports the fault
	}
	known := make(map[string]*yaml.Node)
	if before, fault := readDocument(stored); fault == nil {
		eachSecret(before, secretAt{}, false, func(at secretAt, secret *yaml.Node) { known[at.identity] = secret })
	}
	var missing *NetworkFault
	restored := false
	eachSecret(root, secretAt{}, false, func(at secretAt, secret *yaml.Node) {
		if secret.Value != HiddenSecret {
			return
		}
		if before := known[at.identity]; before != nil {
			*secret = yaml.Node{Kind: yaml.ScalarNode, Tag: before.Tag, Value: before.Value, Style: before.Style}
			restored = true
		} else if missing == nil {
			missing = &NetworkFault{Field: at.path, Line: secret.Line,
				Problem: "has a text that stands for a hidden value; give the value itself"}
		}
	})
	switch {
	case missing != nil:
		return "", missing
	case !restored:
		return text, nil
	}
	return encodeNetwork(root)
}

// NetworkSecrets returns the passwords and keys in a network description.
func NetworkSecrets(text string) []string {
	if !mayHaveSecrets(text) {
		return nil
	}
	root, fault := readDocument(text)
	if fault != nil {
		return nil
	}
	var found []string
	eachSecret(root, secretAt{}, false, func(_ secretAt, secret *yaml.Node) { found = append(found, secret.Value) })
	return found
}

// secretAt is the place of a value in a description.
type secretAt struct {
	path     string // as in errors
	identity string // like path, but with the names of items instead of their numbers
}

func (a secretAt) key(name string) secretAt {
	return secretAt{join(a.path, name), a.identity + "." + strconv.Quote(name)}
}

// eachSecret visits the secrets in a document without aliases. An empty value is no secret.
func eachSecret(n *yaml.Node, at secretAt, secret bool, visit func(at secretAt, secret *yaml.Node)) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i].Value, n.Content[i+1]
			eachSecret(value, at.key(key), secret || isSecret(key, value), visit)
		}
	case yaml.SequenceNode:
		seen := make(map[string]int)
		for i, item := range n.Content {
			name := ""
			if item.Kind == yaml.MappingNode {
				if named := field(item, "name"); named != nil {
					name = named.Value
				}
			}
			seen[name]++
			number := strconv.Itoa(i)
			eachSecret(item, secretAt{at.path + "[" + number + "]",
				at.identity + "[" + strconv.Quote(name) + strconv.Itoa(seen[name]) + "]"}, secret, visit)
		}
	case yaml.ScalarNode:
		if secret && n.Tag != "!!null" && n.Value != "" {
			visit(at, n)
		}
	}
}

// isSecret reports whether the value of a key is a secret. The path of a private key is
// none.
func isSecret(key string, value *yaml.Node) bool {
	key = strings.ToLower(key)
	if key == "private-key" {
		return value.Kind != yaml.ScalarNode ||
			!strings.HasPrefix(value.Value, "/") && !strings.HasPrefix(value.Value, "file:")
	}
	return slices.ContainsFunc(secretWords, func(word string) bool {
		return word != "private-key" && strings.Contains(key, word)
	})
}

func removeComments(n *yaml.Node) (removed bool) {
	removed = n.HeadComment+n.LineComment+n.FootComment != ""
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	for _, child := range n.Content {
		removed = removeComments(child) || removed
	}
	return removed
}

func encodeNetwork(root *yaml.Node) (string, error) {
	var text strings.Builder
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return "", fmt.Errorf("write a network description: %w", err)
	}
	return text.String(), nil
}
