package engine

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"net/netip"
	"net/url"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/network"
	"landfall/appliance/mirror"
	"landfall/appliance/sentence"
)

// checkNewInfraEnv says what is wrong in a request for an infra-env, as far as that can be told
// without making its image.
func checkNewInfraEnv(params *models.InfraEnvCreateParams) error {
	if strings.TrimSpace(conv.Value(params.Name)) == "" {
		return invalid("An infra-env needs a name.")
	}
	return firstOf(
		checkPullSecret(conv.Value(params.PullSecret)),
		checkImageType(params.ImageType),
		checkTimeServers(conv.Value(params.AdditionalNtpSources)),
		checkSSHKeys(conv.Value(params.SSHAuthorizedKey)),
		checkTrustBundle(params.AdditionalTrustBundle),
	)
}

// checkChangedInfraEnv does the same for the parts of an infra-env that a request changes.
func checkChangedInfraEnv(params *models.InfraEnvUpdateParams) error {
	if params.PullSecret != "" {
		if err := checkPullSecret(params.PullSecret); err != nil {
			return err
		}
	}
	return firstOf(
		checkImageType(params.ImageType),
		checkTimeServers(conv.Value(params.AdditionalNtpSources)),
		checkSSHKeys(conv.Value(params.SSHAuthorizedKey)),
		checkTrustBundle(conv.Value(params.AdditionalTrustBundle)),
	)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkPullSecret(secret string) error {
	if _, err := mirror.ParsePullSecret(secret); err != nil {
		return &Error{Kind: Invalid, Reason: sentence.New(err), Err: err}
	}
	return nil
}

func checkImageType(imageType models.ImageType) error {
	if imageType == models.ImageTypeDisconnectedIso {
		return invalid("This appliance does not make images of the type %s, which carry a registry of their own; "+
			"choose %s or %s.",
			imageType, models.ImageTypeFullIso, models.ImageTypeMinimalIso)
	}
	return nil
}

// checkTimeServers checks a list of names and addresses.
func checkTimeServers(list string) error {
	if list == "" {
		return nil
	}
	for source := range strings.SplitSeq(list, ",") {
		source = strings.TrimSpace(source)
		if _, err := netip.ParseAddr(source); err == nil {
			continue
		}
		if fault := network.CheckHostname(strings.TrimSuffix(source, ".")); fault != "" {
			return invalid("The NTP source %q is neither an address nor a host name; name one or more, with commas "+
				"between them.", source)
		}
	}
	return nil
}

// checkSSHKeys checks public keys in the form of an authorized_keys file (sshd(8)), one a line.
func checkSSHKeys(keys string) error {
	for i, line := range lines(keys) {
		if strings.HasPrefix(line, "#") || publicKey(line) {
			continue
		}
		return invalid("Line %d of the SSH keys is no public key such as ssh-ed25519 AAAA… name; paste the content "+
			"of a .pub file.", i+1)
	}
	return nil
}

// publicKey tells whether a line has an algorithm followed by a key of that algorithm, which begins
// with its name (RFC 4253, 6.6); options may stand before them.
func publicKey(line string) bool {
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

// checkProxies refuses proxies that no program could use.
func checkProxies(proxies ...string) error {
	for _, proxy := range proxies {
		if proxy == "" {
			continue
		}
		if parsed, err := url.Parse(proxy); err != nil || parsed.Host == "" || parsed.Scheme != "http" &&
			parsed.Scheme != "https" {
			return invalid("The proxy %q is not a URL, such as http://proxy.example.com:3128.", redact(proxy, parsed))
		}
	}
	return nil
}

// checkNoProxy refuses what could be no destination: "*", or addresses, networks, hosts and domains
// with commas between them.
func checkNoProxy(list string) error {
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
		return invalid("no_proxy has %q, which is no address, network, host or domain; name them with commas between "+
			"them.", item)
	}
	return nil
}

// redact leaves the password out of a URL, or out of what was meant for one.
func redact(text string, parsed *url.URL) string {
	if parsed != nil && parsed.User != nil {
		return parsed.Redacted()
	}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}
