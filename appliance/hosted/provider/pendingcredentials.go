package provider

import (
	"strings"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/record"
)

// pendingCredential returns the operation of the caller's request that waits for its certificate
// and whose key was made here, or nil.
func (ch *change) pendingCredential(all []*record.Credential) (*record.Operation, error) {
	for _, credential := range all {
		if credential.Status != credentialCreated || credential.Key == "" || credential.By != ch.caller.Name {
			continue
		}
		operation, err := record.GetOperation(ch.tx, credential.Operation, ch.now)
		if err != nil {
			return nil, err
		}
		if operation != nil && !record.IsTerminal(operation.Status) &&
			strings.EqualFold(operation.Tenant, ch.caller.Tenant) &&
			strings.EqualFold(operation.Client, ch.caller.Client) {
			return operation, nil
		}
	}
	return nil, nil
}

// endOldCredentials ends the requests that have waited for as long as their certificates would be
// valid. A management cluster that was away for long would otherwise sign all of them.
func (ch *change) endOldCredentials(c *record.Cluster) error {
	all, err := record.Credentials(ch.tx, c.CID)
	if err != nil {
		return err
	}
	for _, credential := range all {
		if credential.Status != credentialCreated || ch.now.Sub(credential.Created) < credentialTime {
			continue
		}
		credential.Status, credential.Key = credentialFailed, ""
		if err := ch.deleteBundle(credential.Bundle); err != nil {
			return err
		}
		if err := ch.endOperation(credential.Operation, record.Failed, arm.Errorf(0, arm.CodeInvalidContent,
			"The management cluster did not sign the certificate within a day. Request the kubeconfig "+
				"again.")); err != nil {
			return err
		}
		if err := record.PutCredential(ch.tx, credential); err != nil {
			return err
		}
	}
	return nil
}
