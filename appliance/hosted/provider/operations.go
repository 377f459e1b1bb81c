package provider

import (
	"strings"

	"github.com/google/uuid"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

// begin starts an operation on a resource.
func (ch *change) begin(resource *record.Resource, kind record.OperationKind) (*record.Operation, error) {
	operation := ch.operation(resource.ID, kind)
	resource.Operation = operation.ID
	return operation, record.PutOperation(ch.tx, operation, ch.now)
}

// operation returns a new operation.
func (ch *change) operation(id arm.ID, kind record.OperationKind) *record.Operation {
	status := record.Accepted
	if kind == record.Delete {
		status = record.Deleting
	}
	return &record.Operation{ID: uuid.NewString(), Kind: kind, Status: status, Resource: id, Start: ch.now,
		Tenant: ch.caller.Tenant, Client: ch.caller.Client}
}

// end ends the running operation of a resource, if there is one.
func (ch *change) end(resource *record.Resource, status string, failure *arm.Error) error {
	id := resource.Operation
	resource.Operation = ""
	return ch.endOperation(id, status, failure)
}

// endOperation ends an operation that runs.
func (ch *change) endOperation(id, status string, failure *arm.Error) error {
	if id == "" {
		return nil
	}
	operation, err := record.GetOperation(ch.tx, id, ch.now)
	if err != nil || operation == nil || record.IsTerminal(operation.Status) {
		return err
	}
	operation.Status, operation.End, operation.Error = status, ch.now, failure
	return record.PutOperation(ch.tx, operation, ch.now)
}

// progress sets the status of a running operation.
func (ch *change) progress(id, status string) error {
	operation, err := record.GetOperation(ch.tx, id, ch.now)
	if err != nil || operation == nil || operation.Status == status || record.IsTerminal(operation.Status) {
		return err
	}
	operation.Status = status
	return record.PutOperation(ch.tx, operation, ch.now)
}

// Operation returns an operation of a subscription. It returns nil if there is none, or if another
// tenant or client started it.
func (s *Service) Operation(subscription, id string, caller Caller) (found *record.Operation, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		row, err := checkSubscription(tx, subscription, false)
		if err != nil {
			return err
		}
		operation, err := record.GetOperation(tx, strings.ToLower(id), s.now())
		if err != nil || operation == nil || !strings.EqualFold(operation.Resource.Subscription, subscription) {
			return err
		}
		tenant := caller.Tenant
		if tenant == "" {
			tenant = row.Tenant
		}
		if !strings.EqualFold(operation.Tenant, tenant) || !strings.EqualFold(operation.Client, caller.Client) {
			return nil
		}
		found = operation
		return nil
	})
	return found, err
}

// OperationResult is what an operation has led to.
type OperationResult struct {
	Operation  *record.Operation
	Resource   arm.Document // of a creation or a change that has ended
	Credential *CredentialResult
}

// Result returns the result of an operation, or nil like Operation.
func (s *Service) Result(subscription, id string, caller Caller) (*OperationResult, error) {
	operation, err := s.Operation(subscription, id, caller)
	if err != nil || operation == nil {
		return nil, err
	}
	result := &OperationResult{Operation: operation}
	if !record.IsTerminal(operation.Status) {
		return result, nil
	}
	err = s.DB.View(func(tx *store.Tx) error {
		c, err := record.FindCluster(tx, operation.Resource)
		if err != nil || c == nil {
			return err
		}
		switch operation.Kind {
		case record.Create, record.Update:
			result.Resource, err = s.showResource(tx, c, operation.Resource)
		case record.RequestCredential:
			result.Credential, err = s.credentialResult(tx, c, operation.Credential)
		}
		return err
	})
	return result, err
}
