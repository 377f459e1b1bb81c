package ignition

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/coreos/ignition/v2/config/util"
	"github.com/coreos/ignition/v2/config/v3_1/types"
	"github.com/vincent-petithory/dataurl"
)

// TokenHeader is the header with which a machine sends the token of a pointer config.
const TokenHeader = "Image-Token"

// Pointer is the input of a pointer config: a config that contains no settings. Ignition fetches
// the machine's config from a URL and uses it instead.
type Pointer struct {
	// URL is the HTTPS URL of the config.
	URL string
	// Token is sent in the header [TokenHeader]. It is not a part of the URL, because Ignition
	// writes URLs to the console.
	Token string
	// CA (PEM) is the CA of the URL's certificate. It is empty if the system already trusts the
	// certificate.
	CA []byte
}

// New returns the pointer config. Its spec version is 3.1.0, the first one with headers, which all
// supported releases read. Equal inputs result in equal bytes.
func (p Pointer) New() ([]byte, error) {
	u, err := url.Parse(p.URL)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("pointer config: the URL %q must begin with https://", p.URL)
	case p.Token == "" || strings.ContainsAny(p.Token, "\r\n\x00"):
		return nil, errors.New("pointer config: the token must be a single line")
	}
	config := types.Config{Ignition: types.Ignition{Version: "3.1.0"}}
	config.Ignition.Config.Replace = types.Resource{Source: util.StrToPtr(p.URL),
		HTTPHeaders: types.HTTPHeaders{{Name: TokenHeader, Value: util.StrToPtr(p.Token)}}}
	authorities, err := authorities(p.CA)
	if err != nil {
		return nil, fmt.Errorf("pointer config: %w", err)
	}
	config.Ignition.Security.TLS.CertificateAuthorities = authorities
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode the pointer config: %w", err)
	}
	return raw, validateOwn(config)
}

// authorities returns each certificate of a PEM bundle as a resource, because early versions of
// Ignition read only the first certificate of a resource.
func authorities(bundle []byte) ([]types.Resource, error) {
	var resources []types.Resource
	seen := map[string]bool{}
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		source := dataurl.EncodeBytes(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		if block.Type == "CERTIFICATE" && !seen[source] {
			seen[source] = true
			resources = append(resources, types.Resource{Source: util.StrToPtr(source)})
		}
	}
	if len(bundle) > 0 && len(resources) == 0 {
		return nil, errors.New("the CA contains no PEM certificate")
	}
	return resources, nil
}

// ReadPointer reads a pointer config. ok is false if the config is another one.
func ReadPointer(raw []byte) (p Pointer, ok bool, err error) {
	config, err := parseLifted(raw)
	if err != nil {
		return Pointer{}, false, err
	}
	replace := config.Ignition.Config.Replace
	if replace.Source == nil {
		return Pointer{}, false, nil
	}
	p.URL = *replace.Source
	for _, header := range replace.HTTPHeaders {
		if header.Name == TokenHeader && header.Value != nil {
			p.Token = *header.Value
		}
	}
	for _, authority := range config.Ignition.Security.TLS.CertificateAuthorities {
		if authority.Source == nil {
			continue
		}
		pem, err := DecodeSource(*authority.Source)
		if err != nil {
			return Pointer{}, false, fmt.Errorf("read a certificate of the pointer config: %w", err)
		}
		p.CA = append(p.CA, pem...)
	}
	return p, true, nil
}

// DecodeSource returns the content of a data URL in a config.
func DecodeSource(source string) ([]byte, error) {
	decoded, err := dataurl.DecodeString(source)
	if err != nil {
		return nil, err
	}
	return decoded.Data, nil
}
