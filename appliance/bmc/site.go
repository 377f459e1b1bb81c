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

// Site gives the manager access to the appliance's images and hosts.
type Site interface {
	// ImageURL returns the URL of an infra-env's image for the BMC with this URL (see Address.URL).
	// The image's URL is short, ends in .iso, has no query and uses plain http. If bmcURL is empty,
	// the URL is for the server's own network. The error is a sentence.
	ImageURL(ctx context.Context, infraEnvID, bmcURL string) (string, error)
	// Hosts calls fn with each host that has reported its hardware.
	Hosts(fn func(Host) error) error
	// Host returns a host. It returns false if the host does not exist or has not reported its
	// hardware.
	Host(ref HostRef) (Host, bool, error)
	// ClusterName returns the name of a cluster, or "" if it does not exist.
	ClusterName(id string) (string, error)
}

// Host is the part of a registered host that the manager uses.
type Host struct {
	HostRef
	Name         string
	ClusterID    string   // "" if the host has no cluster
	MACs         []string // lower case
	SerialNumber string
	Registered   time.Time        // time of the last registration
	Status       string           // models.HostStatus…
	Stage        models.HostStage // stage of the host's installation
	WrongBoot    bool             // the host booted the image again instead of its disk
	Minimal      bool             // the image's root file system is in memory
}

// CheckImageURL checks whether BMCs accept the URL of an image. The error is a *RequestError.
func CheckImageURL(text string) error {
	refuse := func(format string, args ...any) error {
		return &RequestError{"image_url", fmt.Sprintf(format, args...)}
	}
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https":
		return refuse("A BMC cannot fetch the image's URL %q; the URL must begin with http:// or https://.",
			text)
	case len(text) > maxImageURL:
		return refuse("The image's URL has %d bytes, and many BMCs accept at most %d; use the infra-env's short "+
			"URL (…/i/<code>.iso).", len(text), maxImageURL)
	case parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil:
		return refuse("The image's URL has a query, a fragment or a user name, which many BMCs reject; use the " +
			"infra-env's short URL (…/i/<code>.iso).")
	case !strings.HasSuffix(strings.ToLower(parsed.Path), ".iso"):
		return refuse("The image's URL %q does not end in .iso, which many BMCs require; use the infra-env's short "+
			"URL "+
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
