package ams

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"landfall/appliance/durable"
)

// environments returns the URLs of the environments of OpenShift Cluster Manager, to which a push
// sends credentials without a question.
func environments() []string {
	return []string{"https://api.openshift.com", "https://api.stage.openshift.com",
		"https://api.integration.openshift.com"}
}

// CheckPushURL returns an error unless a push may send credentials to the URL of AMS in a courier
// file. named is the URL that a person named, or "".
func CheckPushURL(inFile, named string) error {
	address, err := checkCredentialsURL(inFile)
	if err != nil {
		return refuseFile("its URL of AMS is %q; %w", inFile, err)
	}
	switch {
	case named == "" && slices.Contains(environments(), address):
		return nil
	case named == "":
		return refuseFile("it names %s as AMS, which is no environment of OpenShift Cluster Manager; if its site "+
			"reports to that address, name it with --url", address)
	}
	wanted, err := checkCredentialsURL(named)
	if err != nil {
		return fmt.Errorf("--url is %q; %w", named, err)
	}
	if wanted != address {
		return refuseFile("it is for %s, not for %s", address, wanted)
	}
	return nil
}

// CheckTokenURL returns an error unless a push may send credentials to the URL of a token endpoint.
func CheckTokenURL(named string) error {
	if _, err := checkCredentialsURL(named); err != nil {
		return fmt.Errorf("--token-url is %q; %w", named, err)
	}
	return nil
}

// checkCredentialsURL returns the scheme and the host of a URL. It returns an error for a URL to
// which credentials must not be sent. HTTP is only allowed to this machine.
func checkCredentialsURL(text string) (string, error) {
	address, err := url.Parse(text)
	if err != nil || address.Host == "" || address.User != nil {
		return "", errors.New("expected a URL such as https://api.openshift.com")
	}
	ip, err := netip.ParseAddr(address.Hostname())
	isLoopback := err == nil && ip.IsLoopback()
	if address.Scheme != "https" && !(address.Scheme == "http" && isLoopback) {
		return "", errors.New("credentials are sent over https only")
	}
	return address.Scheme + "://" + strings.ToLower(address.Host), nil
}

// KnownSites is the list of the sites from which files were pushed on this machine. Each line of
// its file is the fingerprint of a site's key.
type KnownSites struct{ path string }

// NewKnownSites returns the list in a directory. It does not create the file yet.
func NewKnownSites(dir string) *KnownSites { return &KnownSites{filepath.Join(dir, "known-sites")} }

// Contains reports whether a site is known.
func (k *KnownSites) Contains(fingerprint string) (bool, error) {
	known, err := k.read()
	return slices.Contains(known, fingerprint), err
}

// Add adds a site to the list.
func (k *KnownSites) Add(fingerprint string) error {
	known, err := k.read()
	if err != nil || slices.Contains(known, fingerprint) {
		return err
	}
	text := strings.Join(append(known, fingerprint), "\n") + "\n"
	if err := durable.WriteFile(k.path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the known sites: %w", err)
	}
	return nil
}

func (k *KnownSites) read() (known []string, err error) {
	file, err := os.Open(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the known sites: %w", err)
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			known = append(known, line)
		}
	}
	if err := errors.Join(lines.Err(), file.Close()); err != nil {
		return nil, fmt.Errorf("read the known sites: %w", err)
	}
	return known, nil
}
