package provider

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/yaml"

	"landfall/appliance/fault"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

// credentialTime is how long a credential is valid after its certificate has been signed.
const credentialTime = 24 * time.Hour

// States of credentials, as in Clusters Service.
const (
	credentialCreated  = "created"
	credentialIssued   = "issued"
	credentialFailed   = "failed"
	credentialRevoking = "awaiting_revocation"
	credentialRevoked  = "revoked"
)

// RevokingError is returned while the credentials of a cluster are being revoked.
type RevokingError struct{ cause *arm.Error }

// Error implements error.
func (e *RevokingError) Error() string { return e.cause.Message }

// Unwrap returns the error of the resource provider.
func (e *RevokingError) Unwrap() error { return e.cause }

// CredentialResult is the result of a request for a credential.
type CredentialResult struct {
	Kubeconfig string    `json:"kubeconfig"`
	Expires    time.Time `json:"expirationTimestamp"`
}

// revoking returns an error while a revocation of a cluster's credentials runs.
func revoking(c *record.Cluster, all []*record.Credential) error {
	for _, credential := range all {
		if credential.Status == credentialRevoking {
			return &RevokingError{arm.Errorf(fault.Conflict, arm.CodeConflict,
				"The credentials of the cluster %s are being revoked.", c.ID.Cluster)}
		}
	}
	return nil
}

// RequestCredential requests a kubeconfig of a cluster's administrator. The private key is made
// here, or by the client, who then sends a certificate signing request (PEM). A caller without one
// gets the request again that still waits.
func (s *Service) RequestCredential(ctx context.Context, caller Caller, id arm.ID, csr string) (*record.Operation,
	error) {
	var operation *record.Operation
	err := s.withCluster(ctx, caller, id, false, func(ch *change, c *record.Cluster) error {
		if err := ch.endOldCredentials(c); err != nil {
			return err
		}
		all, err := record.Credentials(ch.tx, c.CID)
		if err != nil {
			return err
		}
		if err := revoking(c, all); err != nil {
			return err
		}
		if csr == "" {
			if operation, err = ch.pendingCredential(all); err != nil || operation != nil {
				return err
			}
		}
		if c.Control == "" {
			return conflict("The cluster %s has no management cluster yet.", c.ID.Cluster)
		}
		if err := ch.removeExpired(all); err != nil {
			return err
		}
		credential := &record.Credential{ID: strings.ToLower(uuid.NewString()[:8]), CID: c.CID,
			Status: credentialCreated, Created: ch.now, Expires: ch.now.Add(credentialTime), CSR: csr,
			By: caller.Name}
		if csr == "" {
			if err := s.makeKey(credential); err != nil {
				return err
			}
		} else if err := checkCSR(csr); err != nil {
			return err
		}
		content, err := controlplane.Credential(c, credential.ID, credential.CSR, int64(credentialTime.Seconds()))
		if err != nil {
			return err
		}
		if credential.Bundle, err = ch.createBundle(c, content, controlplane.OrphanOption()); err != nil {
			return err
		}
		operation = ch.operation(c.ID, record.RequestCredential)
		operation.Credential, credential.Operation = credential.ID, operation.ID
		if err := record.PutOperation(ch.tx, operation, ch.now); err != nil {
			return err
		}
		return record.PutCredential(ch.tx, credential)
	})
	return operation, err
}

// removeExpired removes the credentials that are useless for as long as an operation is kept.
func (ch *change) removeExpired(all []*record.Credential) error {
	for _, old := range all {
		if old.Status == credentialCreated || old.Status == credentialRevoking ||
			ch.now.Sub(old.Expires) < record.OperationsKept {
			continue
		}
		if _, err := bundle.Get(ch.tx, old.Bundle); errors.Is(err, bundle.ErrNotFound) {
			if err := record.DeleteCredential(ch.tx, old); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// makeKey makes the private key and the certificate signing request of a credential.
func (s *Service) makeKey(credential *record.Credential) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key of a credential: %w", err)
	}
	credential.User = "landfall-" + credential.ID
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: controlplane.CredentialUser + credential.User, Organization: []string{"system:masters"}}}, key)
	if err != nil {
		return fmt.Errorf("make the certificate signing request of a credential: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	credential.CSR = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}))
	credential.Key, err = s.Secrets.Seal(string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
	return err
}

// checkCSR checks a client's certificate signing request.
func checkCSR(text string) error {
	const target = "certificateSigningRequest"
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE REQUEST" || strings.TrimSpace(string(rest)) != "" {
		return arm.Fieldf(target, "The field %s is not one CERTIFICATE REQUEST in PEM.", target)
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = request.CheckSignature()
	}
	if err != nil {
		return arm.Fieldf(target, "The certificate signing request can't be used: %s.", err)
	}
	if !strings.HasPrefix(request.Subject.CommonName, controlplane.CredentialUser) {
		return arm.Fieldf(target, "The common name %q of the certificate signing request does not begin with %s.",
			request.Subject.CommonName, controlplane.CredentialUser)
	}
	return nil
}

// RevokeCredentials revokes all credentials of a cluster, and cancels running requests.
func (s *Service) RevokeCredentials(ctx context.Context, caller Caller, id arm.ID) (*record.Operation, error) {
	var operation *record.Operation
	err := s.withCluster(ctx, caller, id, false, func(ch *change, c *record.Cluster) error {
		all, err := record.Credentials(ch.tx, c.CID)
		if err != nil {
			return err
		}
		if err := revoking(c, all); err != nil {
			return err
		}
		operation = ch.operation(c.ID, record.RevokeCredentials)
		var revoked bool
		for _, credential := range all {
			if credential.Status == credentialCreated {
				if err := ch.endOperation(credential.Operation, record.Canceled, arm.Errorf(0, arm.CodeCanceled,
					"The credentials of the cluster were revoked.")); err != nil {
					return err
				}
				if err := ch.deleteBundle(credential.Bundle); err != nil {
					return err
				}
			}
			if credential.Status != credentialCreated && credential.Status != credentialIssued {
				continue
			}
			revoked = true
			credential.Status, credential.Operation, credential.Kubeconfig, credential.Key = credentialRevoking,
				operation.ID, "", ""
			if err := record.PutCredential(ch.tx, credential); err != nil {
				return err
			}
		}
		if !revoked {
			operation.Status, operation.End = record.Succeeded, ch.now
			return record.PutOperation(ch.tx, operation, ch.now)
		}
		content, err := controlplane.Revocation(c, operation.ID)
		if err != nil {
			return err
		}
		if c.Revocation, err = ch.createBundle(c, content, nil); err != nil {
			return err
		}
		if err := record.PutOperation(ch.tx, operation, ch.now); err != nil {
			return err
		}
		return record.PutCluster(ch.tx, c)
	})
	return operation, err
}

// settleCredentials completes requests for credentials and revocations by the reports about their
// bundles. A request whose bundle a person deleted by itself fails; a revocation gets a new one.
func (ch *change) settleCredentials(c *record.Cluster) error {
	all, err := record.Credentials(ch.tx, c.CID)
	if err != nil {
		return err
	}
	for _, credential := range all {
		if credential.Status != credentialCreated {
			continue
		}
		report, err := ch.report(credential.Bundle)
		if err != nil {
			return err
		}
		if err := ch.issue(c, credential, report); err != nil {
			return err
		}
		if credential.Status != credentialCreated {
			continue
		}
		if there, err := isThere(ch.tx, credential.Bundle); err != nil {
			return err
		} else if !there {
			const reason = "The bundle of the request was deleted. Request the kubeconfig again."
			if err := ch.fail(credential, reason); err != nil {
				return err
			}
		}
	}
	if c.Revocation == "" {
		return nil
	}
	if err := ch.renewRevocation(c, all); err != nil {
		return err
	}
	report, err := ch.report(c.Revocation)
	if err != nil || !report.Revoked() {
		return err
	}
	if err := ch.deleteBundle(c.Revocation); err != nil {
		return err
	}
	c.Revocation = ""
	for _, credential := range all {
		if credential.Status != credentialRevoking {
			continue
		}
		credential.Status = credentialRevoked
		if err := ch.endOperation(credential.Operation, record.Succeeded, nil); err != nil {
			return err
		}
		if err := record.PutCredential(ch.tx, credential); err != nil {
			return err
		}
	}
	return nil
}

// isThere reports whether a bundle exists and nobody has deleted it.
func isThere(tx *store.Tx, id string) (bool, error) {
	b, err := bundle.Get(tx, id)
	return err == nil && !b.Deleting(), ignoreMissing(err)
}

// renewRevocation makes the bundle of a revocation again after a person has deleted it by itself
// and nothing of it is left.
func (ch *change) renewRevocation(c *record.Cluster, all []*record.Credential) error {
	_, err := bundle.Get(ch.tx, c.Revocation)
	if !errors.Is(err, bundle.ErrNotFound) {
		return err
	}
	c.Revocation = ""
	for _, credential := range all {
		if credential.Status != credentialRevoking {
			continue
		}
		content, err := controlplane.Revocation(c, credential.Operation)
		if err != nil {
			return err
		}
		c.Revocation, err = ch.createBundle(c, content, nil)
		return err
	}
	return nil
}

// fail ends a request for a credential that can't be issued.
func (ch *change) fail(credential *record.Credential, reason string) error {
	credential.Status = credentialFailed
	return errors.Join(ch.deleteBundle(credential.Bundle), ch.endOperation(credential.Operation, record.Failed,
		arm.Errorf(0, arm.CodeInvalidContent, "%s", reason)), record.PutCredential(ch.tx, credential))
}

// issue completes a request for a credential when the report has the certificate.
func (ch *change) issue(c *record.Cluster, credential *record.Credential, report controlplane.Report) error {
	certificate, ca, ok := report.Certificate()
	if !ok {
		reason := report.Denied()
		if reason == "" {
			return nil
		}
		return ch.fail(credential, reason)
	}
	if c.Observed.APIURL == "" {
		return nil
	}
	key, err := ch.s.Secrets.Open(credential.Key)
	if err != nil {
		return err
	}
	kubeconfig, err := kubeconfigOf(c, credential, certificate, ca, key)
	if err != nil {
		return err
	}
	if credential.Kubeconfig, err = ch.s.Secrets.Seal(kubeconfig); err != nil {
		return err
	}
	credential.Status, credential.Key = credentialIssued, ""
	credential.Expires = expiry(certificate, ch.now)
	if err := ch.deleteBundle(credential.Bundle); err != nil {
		return err
	}
	if err := ch.endOperation(credential.Operation, record.Succeeded, nil); err != nil {
		return err
	}
	return record.PutCredential(ch.tx, credential)
}

// expiry returns the end of a certificate in base64. The certificate may have been signed long
// after its request. One that can't be read counts as signed now.
func expiry(certificate string, now time.Time) time.Time {
	content, err := base64.StdEncoding.DecodeString(certificate)
	if err == nil {
		if block, _ := pem.Decode(content); block != nil {
			if parsed, err := x509.ParseCertificate(block.Bytes); err == nil {
				return parsed.NotAfter.UTC()
			}
		}
	}
	return now.Add(credentialTime)
}

// kubeconfigOf returns the kubeconfig of a credential. certificate and ca are in base64.
func kubeconfigOf(c *record.Cluster, credential *record.Credential, certificate, ca, key string) (string, error) {
	type object = map[string]any
	user := object{"client-certificate-data": certificate}
	if key != "" {
		user["client-key-data"] = base64.StdEncoding.EncodeToString([]byte(key))
	}
	name := strings.ToLower(c.ID.Cluster)
	text, err := yaml.Marshal(object{"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []object{{"name": name, "cluster": object{"server": c.Observed.APIURL,
			"certificate-authority-data": ca}}},
		"users":    []object{{"name": "admin", "user": user}},
		"contexts": []object{{"name": name, "context": object{"cluster": name, "user": "admin"}}}})
	return string(text), err
}

// credentialResult returns the kubeconfig of a credential that was issued.
func (s *Service) credentialResult(tx *store.Tx, c *record.Cluster, id string) (*CredentialResult, error) {
	credential, err := record.GetCredential(tx, c.CID, id)
	if err != nil || credential == nil || credential.Status != credentialIssued {
		return nil, err
	}
	kubeconfig, err := s.Secrets.Open(credential.Kubeconfig)
	return &CredentialResult{kubeconfig, credential.Expires}, err
}

// report returns the current report about a bundle.
func (ch *change) report(id string) (controlplane.Report, error) {
	if id == "" {
		return controlplane.Report{}, nil
	}
	b, err := bundle.Get(ch.tx, id)
	if err != nil {
		return controlplane.Report{}, ignoreMissing(err)
	}
	status, err := bundle.GetStatus(ch.tx, id)
	if err != nil {
		return controlplane.Report{}, err
	}
	return controlplane.ReadReport(b, status)
}
