package description

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/network"
	"landfall/appliance/mirror"
)

// tagForm matches a tag of a cluster: words with single spaces between them.
var tagForm = regexp.MustCompile(`^\w+( \w+)*$`)

// CheckName rejects an invalid name of a cluster.
func CheckName(name string) error {
	if problem := network.CheckClusterName(name); problem != "" {
		return invalid("%s", problem)
	}
	return nil
}

func checkBaseDomain(domain string) error {
	if domain == "" {
		return nil
	}
	if problem := network.CheckBaseDomain(domain); problem != "" {
		return invalid("%s", problem)
	}
	return nil
}

func checkTags(tags string) error {
	if tags == "" {
		return nil
	}
	for tag := range strings.SplitSeq(tags, ",") {
		if !tagForm.MatchString(tag) {
			return invalid("%q is not a valid tag: tags have letters, digits, underscores and single spaces, with "+
				"commas "+
				"between them.", tag)
		}
	}
	return nil
}

func checkPullSecret(secret string) error {
	if _, err := mirror.ParsePullSecret(secret); err != nil {
		return wrapInvalid(err)
	}
	return nil
}

// CheckTimeServers checks a list of names and addresses.
func CheckTimeServers(list string) error {
	if list == "" {
		return nil
	}
	for source := range strings.SplitSeq(list, ",") {
		source = strings.TrimSpace(source)
		if _, err := netip.ParseAddr(source); err == nil {
			continue
		}
		if fault := network.CheckHostname(strings.TrimSuffix(source, ".")); fault != "" {
			return invalid("The NTP source %q is neither an address nor a host name; give sources with commas "+
				"between them.", source)
		}
	}
	return nil
}

// CheckSSHKeys checks public keys in the format of an authorized_keys file (sshd(8)), one per line.
func CheckSSHKeys(keys string) error {
	number := 0
	for line := range strings.Lines(keys) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		number++
		if strings.HasPrefix(line, "#") || isPublicKey(line) {
			continue
		}
		return invalid("Line %d of the SSH keys is not a public key such as ssh-ed25519 AAAA… name; paste the content "+
			"of a .pub file.", number)
	}
	return nil
}

// isPublicKey reports whether a line has an algorithm and a key of that algorithm. A key begins
// with the name of its algorithm (RFC 4253, 6.6). Options may precede both.
func isPublicKey(line string) bool {
	fields := strings.Fields(line)
	for i := 0; i+1 < len(fields); i++ {
		blob, err := base64.StdEncoding.DecodeString(fields[i+1])
		if err != nil || len(blob) < 4 {
			continue
		}
		length := binary.BigEndian.Uint32(blob)
		if uint64(len(blob)) > 4+uint64(length) && string(blob[4:4+length]) == fields[i] {
			return true
		}
	}
	return false
}

func checkTrustBundle(text string) error {
	rest := []byte(strings.TrimSpace(text))
	for number := 1; len(rest) > 0; number++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return invalid("The additional trust bundle is not in PEM form from certificate %d on.", number)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return invalid("Certificate %d of the additional trust bundle can't be read: %v.", number, err)
		}
		rest = bytes.TrimSpace(rest)
	}
	return nil
}

// CheckProxy rejects a text that is not the URL of a proxy. It accepts the empty text.
func CheckProxy(proxy string) error {
	if proxy == "" {
		return nil
	}
	if parsed, err := url.Parse(proxy); err != nil || parsed.Host == "" || parsed.Scheme != "http" &&
		parsed.Scheme != "https" {
		return invalid("The proxy %q is not a URL, such as http://proxy.example.com:3128.", redact(proxy, parsed))
	}
	return nil
}

// CheckNoProxy rejects a list with items other than addresses, networks, hosts and domains. It
// accepts the list "*".
func CheckNoProxy(list string) error {
	if list == "" || list == "*" {
		return nil
	}
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		_, address := netip.ParseAddr(item)
		_, prefix := netip.ParsePrefix(item)
		if address == nil || prefix == nil || network.CheckHostname(strings.Trim(strings.TrimPrefix(item, "*"),
			".")) == "" {
			continue
		}
		return invalid("no_proxy has %q, which is not an address, network, host or domain; separate the items with "+
			"commas.", item)
	}
	return nil
}

// redact removes the password from a URL. If the text is not a URL, redact removes everything
// before the last @.
func redact(text string, parsed *url.URL) string {
	if parsed != nil && parsed.User != nil {
		return parsed.Redacted()
	}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// HiddenPassword replaces a password in a URL, as in package net/url.
const HiddenPassword = "xxxxx"

// HideURLPassword returns a URL with HiddenPassword instead of its password.
func HideURLPassword(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || parsed.User == nil {
		return text
	}
	if _, ok := parsed.User.Password(); !ok {
		return text
	}
	return parsed.Redacted()
}

// HideProxyPasswords hides the passwords in the URLs of a cluster's proxies.
func HideProxyPasswords(cluster *models.Cluster) {
	if cluster != nil {
		cluster.HTTPProxy, cluster.HTTPSProxy = HideURLPassword(cluster.HTTPProxy), HideURLPassword(cluster.HTTPSProxy)
	}
}
