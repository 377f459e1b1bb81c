package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/access/certificate"
)

// TLS configures the certificates of the appliance's listeners.
type TLS struct {
	Enabled  bool   `mapstructure:"enabled"`
	CertFile string `mapstructure:"cert_file" check:"file"`
	KeyFile  string `mapstructure:"key_file" check:"file"`
	CAFile   string `mapstructure:"ca_file" check:"file"`
	ACME     ACME   `mapstructure:"acme"`

	// ClientCAFile names the authorities of client certificates. Without it, programs have none.
	ClientCAFile      string       `mapstructure:"client_ca_file" check:"file"`
	ClientCRLFile     string       `mapstructure:"client_crl_file" check:"file"`
	ClientRoles       Roles        `mapstructure:"client_roles"`
	ClientGroupScopes []GroupScope `mapstructure:"client_group_scopes"`
}

// ClientCertificates returns the options for client certificates.
func (t TLS) ClientCertificates(clock clockwork.Clock, logger *slog.Logger) certificate.Options {
	return certificate.Options{CAFile: t.ClientCAFile, CRLFile: t.ClientCRLFile,
		Rules: t.ClientRoles.rules(t.ClientGroupScopes), Clock: clock, Logger: logger}
}

// ACME configures a CA of the site from which the appliance gets its certificate.
type ACME struct {
	Directory  string `mapstructure:"directory" check:"url"`
	CAFile     string `mapstructure:"ca_file" check:"file"`
	Email      string `mapstructure:"email"`
	EABKeyID   string `mapstructure:"eab_key_id"`
	EABKeyFile string `mapstructure:"eab_key_file" check:"file"`
}

// NoListener is the value of boot_listen that disables the listener.
const NoListener = "none"

// Check returns an error for keys that contradict each other. The error is a sentence.
func (t TLS) Check() error {
	switch {
	case !t.Enabled && (t.CertFile != "" || t.KeyFile != "" || t.ACME.Directory != "" || t.ClientCAFile != ""):
		return errors.New("tls.enabled is false, but other keys of tls are set; remove them, or set tls.enabled to " +
			"true")
	case (t.CertFile == "") != (t.KeyFile == ""):
		return errors.New("tls.cert_file and tls.key_file belong together; set both, or neither")
	case t.ClientCRLFile != "" && t.ClientCAFile == "":
		return errors.New("tls.client_crl_file is set without tls.client_ca_file; set the authorities of the client " +
			"certificates, too")
	case t.CertFile != "" && t.ACME.Directory != "":
		return errors.New("tls.cert_file and tls.acme.directory exclude each other; remove one of them")
	case (t.ACME.EABKeyID == "") != (t.ACME.EABKeyFile == ""):
		return errors.New("tls.acme.eab_key_id and tls.acme.eab_key_file belong together; set both, or neither")
	case t.ACME.Directory == "" && t.ACME.EABKeyID != "":
		return errors.New("tls.acme.eab_key_id is set without tls.acme.directory; set the URL of the CA's directory")
	}
	return nil
}

// checkURLs returns an error if a URL has another scheme than the listener.
func (t TLS) checkURLs(urls []string) error {
	for _, given := range urls {
		if rest, ok := strings.CutPrefix(given, "http://"); ok && t.Enabled {
			return fmt.Errorf("url is %s, but the appliance serves HTTPS; write https://%s, or set tls.enabled to "+
				"false", given, rest)
		}
	}
	return nil
}

// Hosts returns the names and addresses in URLs.
func Hosts(urls []string) []string {
	var hosts []string
	for _, text := range urls {
		if parsed, err := url.Parse(text); err == nil {
			hosts = append(hosts, parsed.Hostname())
		}
	}
	return hosts
}

// ReadFile reads the file that a key of the configuration names. It returns nil for no name.
func ReadFile(key, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return content, nil
}
