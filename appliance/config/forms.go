package config

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/uuid"

	"landfall/appliance/audittrail"
	"landfall/appliance/egress"
	"landfall/appliance/engine/validation"
	"landfall/appliance/siteservice/dhcpserver"
)

// form is a form of texts.
type form struct {
	// expected describes the form in errors.
	expected string
	// read returns the value of a text. Paths are relative to a directory.
	read func(text, directory string) (string, error)
}

// forms are the forms of texts by their names in the tag check of fields.
var forms = map[string]form{
	"address": {"an address and a port, such as 0.0.0.0:8090", where(isAddress)},
	"address-or-none": {"an address and a port, such as 0.0.0.0:8091, or none", where(func(text string) bool {
		return text == NoListener || isAddress(text)
	})},
	"url": {"an http:// or https:// URL without a query, such as http://192.0.2.10:8090", readURL},
	// Issuers are compared as texts, so a slash at the end stays.
	"issuer": {"the provider's https:// URL, exactly as it calls itself", where(isURL)},
	"pullspec": {"an image with its registry and its tag or digest, such as " +
		"registry.example.com/openshift/release-images:4.19.3-x86_64", parsed(func(text string) (name.Reference, error) {
		return name.ParseReference(text, name.StrictValidation)
	})},
	"sha256":    {"64 hexadecimal digits", readDigest},
	"version":   {"a version such as 4.19 or 4.19.3; give it in quotes", where(versionForm.MatchString)},
	"host":      {"a DNS name or an IP address", where(hostForm.MatchString)},
	"id":        {"an ID, as landfall cluster list -o wide and landfall infra-env list -o wide show it", readID},
	"interface": {"the name of a network interface, such as eth1", where(validInterface)},
	"dhcp": {"an interface and a mode, such as eth1=proxy, eth1=reservations or eth1=192.0.2.100-192.0.2.199",
		parsed(parseDHCP)},
	"lease": {"a duration of at least a minute, such as 12h, or infinite", parsed(parseLease)},
	"ipv4": {"an IPv4 address, such as 192.0.2.1", where(func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && address.Is4()
	})},
	"network": {"an IPv4 network, such as 198.51.100.0/24", where(func(text string) bool {
		prefix, err := netip.ParsePrefix(text)
		return err == nil && prefix.Addr().Is4() && prefix == prefix.Masked()
	})},
	"range":    {"a range of IPv4 addresses, such as 192.0.2.100-192.0.2.199", parsed(dhcpserver.ParseRange)},
	"resolver": {"the IP address of a DNS server, such as 192.0.2.53", parsed(parseResolver)},
	"egress": {"a network such as 192.0.2.0/24, an address, or a host name such as bmc.example.com or *.example.com",
		where(func(text string) bool {
			_, isNetwork := egress.ParseNetwork(text)
			return isNetwork || egress.ValidName(text)
		})},
	"validation": {"the ID of an optional host validation, such as mtu-valid", where(func(text string) bool {
		return validation.CheckDisabled([]validation.ID{validation.ID(text)}) == nil
	})},
	"syslog": {"unix:///dev/log, udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT",
		parsed(audittrail.ParseSyslog)},
	"place":        {"a path, or the https:// URL of a second appliance", readPlace},
	"path":         {"a path", readPath},
	"path-or-none": {"a path", readPathOrNone},
	"file":         {"the path of a file", readUsableFile},
}

// where returns the form of the texts for which a function reports true.
func where(is func(text string) bool) func(text, directory string) (string, error) {
	return func(text, _ string) (string, error) {
		if !is(text) {
			return "", errInvalid
		}
		return text, nil
	}
}

// parsed returns the form of the texts that a function parses without an error.
func parsed[T any](parse func(text string) (T, error)) func(text, directory string) (string, error) {
	return where(func(text string) bool {
		_, err := parse(text)
		return err == nil
	})
}

// versionForm matches versions of OpenShift: 4.19, 4.19.3, 4.20.0-rc.1.
var versionForm = regexp.MustCompile(`^\d+\.\d+(\.\d+(-[0-9A-Za-z.-]+)?)?$`)

// hostForm matches DNS names and IP addresses. It rejects only texts that no resolver accepts.
var hostForm = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z.:-]*[0-9A-Za-z])?$|^::1?$`)

func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err == nil
}

// isURL reports whether a text is a URL of HTTP without a query.
func isURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "1"), 10, 16)
	return u.Hostname() != "" && (u.Scheme == "http" || u.Scheme == "https") && u.RawQuery == "" && u.Fragment == "" &&
		err == nil && port > 0
}

// readURL returns a URL without a slash at its end.
func readURL(text, _ string) (string, error) {
	if !isURL(text) {
		return "", errInvalid
	}
	return strings.TrimRight(text, "/"), nil
}

func readDigest(text, _ string) (string, error) {
	if digest, err := hex.DecodeString(text); err != nil || len(digest) != 32 {
		return "", errInvalid
	}
	return strings.ToLower(text), nil
}

func readID(text, _ string) (string, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return "", errInvalid
	}
	return id.String(), nil
}

func readPlace(text, directory string) (string, error) {
	switch {
	case strings.HasPrefix(text, "https://"):
		return readURL(text, directory)
	case strings.Contains(text, "://"):
		return "", errInvalid
	}
	return readPath(text, directory)
}

func readPath(text, directory string) (string, error) {
	if text == "" {
		return "", errInvalid
	}
	return resolve(text, directory), nil
}

func readPathOrNone(text, directory string) (string, error) {
	if text == "" {
		return "", nil
	}
	return resolve(text, directory), nil
}

func readUsableFile(text, directory string) (string, error) {
	path := resolve(text, directory)
	return path, checkFile(path)
}

func resolve(path, directory string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(directory, path)
}

// fileError is an unusable file that the configuration names.
type fileError struct{ path, problem string }

func (e *fileError) Error() string { return e.path + ": " + e.problem }

func checkFile(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &fileError{path, "which does not exist; create the file or correct the path"}
	}
	if err == nil && info.IsDir() {
		return &fileError{path, "which is a directory; name the file in it"}
	}
	if err == nil {
		var file *os.File
		if file, err = os.Open(path); err == nil {
			err = file.Close()
		}
	}
	if err != nil {
		return &fileError{path,
			fmt.Sprintf("which cannot be read (%v); give the appliance's user the right to read it", rootCause(err))}
	}
	return nil
}

// rootCause returns the operating system's error, without the path and the call.
func rootCause(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}
