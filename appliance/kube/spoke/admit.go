package spoke

import (
	"context"
	"fmt"
	"strings"
	"time"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// requestRetention is the time after which a cluster deletes approved certificate requests
// (kube-controller-manager's cleaner).
const requestRetention = time.Hour

// Host is a host that is to become a node.
type Host struct {
	Name    string            // of the node
	Started time.Time         // when its installation began, by the appliance's clock
	Labels  map[string]string // that the node gets once it is ready
	Approve bool              // its certificate requests are approved here; else in the cluster
	Known   []Request         // that were seen approved before
}

// HostStatus is the state of a host in its cluster.
type HostStatus struct {
	Node, Ready bool      // it is a node; one that is ready, and nothing of it waits for approval
	Approved    []Request // its requests that are approved by now
	Reason      string    // of the problem, "" for none
	Problem     string    // a sentence
}

// Requests lists a cluster's certificate requests. One list serves for all hosts of a check.
func (c *Client) Requests(ctx context.Context) ([]certificates.CertificateSigningRequest, error) {
	var list certificates.CertificateSigningRequestList
	err := c.objects.list(ctx, place{kind: requestKind}, nil, &list)
	return list.Items, err
}

// Admit approves the valid certificate requests of a host's kubelet, labels its node, and returns
// how far the host is. It is idempotent: the cluster holds what was done.
func (c *Client) Admit(ctx context.Context, host Host,
	requests []certificates.CertificateSigningRequest) (HostStatus, error) {
	host.Name = strings.ToLower(host.Name)
	node, err := c.node(ctx, host.Name)
	if apierrors.IsNotFound(err) {
		node = nil
	} else if err != nil {
		return HostStatus{}, err
	}
	// times of objects are in whole seconds
	since := c.clusterTime(host.Started).Truncate(time.Second).Add(-time.Second)
	if node != nil && foreign(node, since) {
		return HostStatus{Reason: ReasonNameTaken,
			Problem: fmt.Sprintf("The cluster has a node %s already, which was ready before the installation of the "+
				"host began: it is another machine. "+
				"Give the host another name and install it again, or remove that node (oc delete node %s) if the "+
				"machine "+
				"is gone.", node.Name, node.Name)}, nil
	}
	sight := HostStatus{Node: node != nil}
	handled := true
	if host.Approve {
		if handled, err = c.approveAll(ctx, host, since, node, requests, &sight); err != nil {
			return sight, err
		}
	}
	if node == nil || !ready(node) {
		return sight, nil
	}
	if err := c.label(ctx, node, host.Labels); err != nil {
		return sight, err
	}
	sight.Ready = handled
	return sight, nil
}

// approveAll approves a host's requests, and reports whether all requests that a node needs are
// approved.
func (c *Client) approveAll(ctx context.Context, host Host, since time.Time, node *core.Node,
	requests []certificates.CertificateSigningRequest, sight *HostStatus) (handled bool, err error) {
	found := reviewRequests(host, since, node, requests)
	sight.Approved = found.approved
	if found.refused != "" {
		sight.Reason, sight.Problem = ReasonRequest, found.refused
	}
	for _, csr := range found.approve {
		at, err := c.approve(ctx, csr)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			found.waiting = true // it was decided or deleted in the meantime: it is read again
			continue
		}
		if err != nil {
			return false, fmt.Errorf("approve the certificate request %s: %w", csr.Name, err)
		}
		sight.Approved = append(sight.Approved, Request{Name: csr.Name,
			Serving: csr.Spec.SignerName == certificates.KubeletServingSignerName, ApprovedAt: at})
	}
	client, serving := false, false
	for _, request := range append(host.Known, sight.Approved...) {
		client, serving = client || !request.Serving, serving || request.Serving
	}
	if client && serving {
		return true, nil
	}
	// Later the requests are deleted.
	return node != nil && !found.waiting && ready(node) && c.clusterTime(c.clock.Now()).
			Sub(readySince(node)) > requestRetention,
		nil
}

func (c *Client) approve(ctx context.Context, csr *certificates.CertificateSigningRequest) (time.Time, error) {
	now := c.clock.Now().UTC().Truncate(time.Second)
	approved := csr.DeepCopy()
	approved.Status.Conditions = append(approved.Status.Conditions, certificates.CertificateSigningRequestCondition{
		Type: certificates.CertificateApproved, Status: core.ConditionTrue, Reason: approvalReason,
		Message:        "This request is of a host that Landfall installs into the cluster.",
		LastUpdateTime: meta.NewTime(now),
	})
	approved.APIVersion, approved.Kind = requestKind.GroupVersion().String(), "CertificateSigningRequest"
	return now, c.objects.update(ctx, place{kind: requestKind, name: csr.Name, sub: "approval"}, approved)
}

// foreign reports whether a node is another machine than the host whose installation started at a
// time of the cluster's clock: the node was ready before and has been ready since. A node that was
// not ready is the earlier state of the machine, or the machine that it replaces.
func foreign(node *core.Node, since time.Time) bool {
	return node.CreationTimestamp.Time.Before(since) && ready(node) && readySince(node).Before(since)
}

func ready(node *core.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == core.NodeReady {
			return c.Status == core.ConditionTrue
		}
	}
	return false
}

func readySince(node *core.Node) time.Time {
	for _, c := range node.Status.Conditions {
		if c.Type == core.NodeReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// label adds missing labels to a node.
func (c *Client) label(ctx context.Context, node *core.Node, labels map[string]string) error {
	lacking := map[string]string{}
	for name, value := range labels {
		if held, ok := node.Labels[name]; !ok || held != value {
			lacking[name] = value
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	if err := c.objects.merge(ctx, place{kind: nodeKind, name: node.Name},
		map[string]any{"metadata": map[string]any{"labels": lacking}}); err != nil {
		return fmt.Errorf("label the node %s: %w", node.Name, err)
	}
	return nil
}
