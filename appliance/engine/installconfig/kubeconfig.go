package installconfig

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// AddIngressCA prepends the ingress CA (PEM) to the certificate authorities of each cluster in a
// kubeconfig.
func AddIngressCA(kubeconfig []byte, certificate string) ([]byte, error) {
	var config map[string]any
	if err := yaml.Unmarshal(kubeconfig, &config); err != nil {
		return nil, fmt.Errorf("reading the generated kubeconfig: %w", err)
	}
	clusters, _ := config["clusters"].([]any)
	if len(clusters) == 0 {
		return nil, errors.New("the generated kubeconfig lacks clusters")
	}
	for _, entry := range clusters {
		named, _ := entry.(map[string]any)
		cluster, _ := named["cluster"].(map[string]any)
		if cluster == nil {
			return nil, errors.New("the generated kubeconfig has a cluster without content")
		}
		joined, err := prependCA(cluster["certificate-authority-data"], certificate)
		if err != nil {
			return nil, err
		}
		cluster["certificate-authority-data"] = joined
	}
	return yaml.Marshal(config)
}

// prependCA prepends a PEM certificate to the base64 text of others.
func prependCA(held any, certificate string) (string, error) {
	text, _ := held.(string)
	before, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("the generated kubeconfig has a certificate-authority-data that is not base64: %w", err)
	}
	return base64.StdEncoding.EncodeToString([]byte(strings.TrimSpace(certificate) + "\n" + string(before))), nil
}

// CheckIngressCA rejects a text that is not a list of PEM certificates.
func CheckIngressCA(text string) error {
	rest := []byte(strings.TrimSpace(text))
	if len(rest) == 0 {
		return invalid("The ingress certificate is empty.")
	}
	for len(rest) > 0 {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			return invalid("The ingress certificate is not in PEM form.")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return invalid("The ingress certificate can't be read: %v.", err)
		}
		rest = bytes.TrimSpace(rest)
	}
	return nil
}
