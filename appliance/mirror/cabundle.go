package mirror

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"
)

// ParseCABundle reads CA certificates from PEM. It returns each certificate once, without text
// between or after them: openshift-install rejects blank lines and comments after the last one.
// Errors are *InputError with the document name.
func ParseCABundle(name string, data []byte) ([]byte, error) {
	return parseCABundles([]Document{{Name: name, Data: data}})
}

func parseCABundles(docs []Document) ([]byte, error) {
	var out bytes.Buffer
	seen := map[string]bool{}
	for _, doc := range docs {
		number := 0
		for rest := doc.Data; ; {
			var block *pem.Block
			at := rest
			block, rest = pem.Decode(rest)
			if block == nil {
				if trailing := bytes.Index(at, []byte("-----BEGIN")); trailing >= 0 {
					return nil, &InputError{doc.Name, lineOf(doc.Data, len(doc.Data)-len(at)+trailing),
						"the PEM block is cut off or damaged"}
				}
				break
			}
			number++
			where := fmt.Sprintf("PEM block %d", number)
			if block.Type != "CERTIFICATE" {
				return nil, &InputError{doc.Name, where,
					fmt.Sprintf("has the type %s; a CA bundle may contain only certificates", block.Type)}
			}
			if err := checkCA(block.Bytes); err != "" {
				return nil, &InputError{doc.Name, where, err}
			}
			if !seen[string(block.Bytes)] {
				seen[string(block.Bytes)] = true
				out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}))
			}
		}
		if number == 0 {
			return nil, &InputError{doc.Name, "",
				"has no certificate; expected PEM blocks that begin with -----BEGIN CERTIFICATE-----"}
		}
	}
	return out.Bytes(), nil
}

// checkCA returns the problem of a certificate that is not a CA, or "". It accepts certificates of
// version 1, such as old root certificates, which cannot state whether they are CAs.
func checkCA(der []byte) string {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return "is not a certificate: " + err.Error()
	}
	if cert.Version >= 3 && !cert.IsCA {
		return fmt.Sprintf("is the certificate of %q, not of a CA; use the certificate of the CA that signed it (%s)",
			cert.Subject, cert.Issuer)
	}
	return ""
}

// JoinBundles joins the certificates of bundles (PEM). The result contains each certificate once,
// without text between or after them: openshift-install rejects comments after the last one. A
// bundle that is not PEM stays in the result; a later check rejects it.
func JoinBundles(bundles ...string) []byte {
	var joined bytes.Buffer
	seen := make(map[string]bool)
	for _, bundle := range bundles {
		for rest := []byte(bundle); ; {
			block, left := pem.Decode(rest)
			if block == nil {
				if text := bytes.TrimSpace(rest); len(rest) == len(bundle) && len(text) > 0 {
					joined.Write(append(text, '\n'))
				}
				break
			}
			if rest = left; !seen[string(block.Bytes)] {
				seen[string(block.Bytes)] = true
				joined.Write(pem.EncodeToMemory(block))
			}
		}
	}
	if joined.Len() == 0 {
		return nil
	}
	return joined.Bytes()
}

func lineOf(data []byte, offset int) string {
	return fmt.Sprintf("line %d", bytes.Count(data[:offset], []byte("\n"))+1)
}

// Authority is a CA that signs mirror certificates.
type Authority struct {
	Subject  string    `json:"subject"`
	NotAfter time.Time `json:"not_after"`
}

// Authorities returns the CAs of the bundle.
func (r *Rules) Authorities() []Authority {
	var list []Authority
	for rest := r.CABundle(); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return list
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			list = append(list, Authority{Subject: cert.Subject.String(), NotAfter: cert.NotAfter.UTC()})
		}
	}
}
