package bmc

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"
)

// Site is what the manager asks of the appliance around it.
type Site interface {
	// ImageURL is where the BMC of an address (see Address.URL) finds an infra-env's image: short,
	// ending in .iso, without a query, in plain http. Without an address it is where servers find
	// it in their own network. Its error is a sentence.
	ImageURL(ctx context.Context, infraEnvID, bmcURL string) (string, error)
	// Hosts calls fn with every host whose hardware is known.
	Hosts(fn func(Host) error) error
	// Host tells of one host; false when it is gone or its hardware is not known yet.
	Host(ref HostRef) (Host, bool, error)
}

// Host is what a manager looks at of a host that registered.
type Host struct {
	HostRef
	MACs         []string // lower case
	SerialNumber string
	Registered   time.Time        // when it registered last
	Status       string           // models.HostStatus…
	Stage        models.HostStage // of its installation
	WrongBoot    bool             // it came up from the image again where its disk was expected
	Minimal      bool             // its image's root file system is in memory
}

// CheckImageURL says why BMCs would not take an image's URL; the error is a *RequestError.
func CheckImageURL(text string) error {
	refuse := func(format string, args ...any) error {
		return &RequestError{"image_url", fmt.Sprintf(format, args...)}
	}
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https":
		return refuse("The image's URL %q is none that a BMC can fetch; it begins with http:// or https://.", text)
	case len(text) > maxImageURL:
		return refuse("The image's URL has %d bytes, and many BMCs take no more than %d; use the infra-env's short "+
			"URL (…/i/<code>.iso).", len(text), maxImageURL)
	case parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil:
		return refuse("The image's URL has a query, a fragment or a user name, which many BMCs refuse; use the " +
			"infra-env's short URL (…/i/<code>.iso).")
	case !strings.HasSuffix(strings.ToLower(parsed.Path), ".iso"):
		return refuse("The image's URL %q does not end in .iso, which many BMCs want; use the infra-env's short URL "+
			"(…/i/<code>.iso).", text)
	}
	return nil
}

func checkCA(text string) error {
	if text == "" {
		return nil
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(text)) {
		return errNotPEM
	}
	return nil
}
