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

// Host is a host that joins a cluster as a node.
type Host struct {
	Name    string            // name of the node
	Started time.Time         // start of the host's installation, by the appliance's clock
	Labels  map[string]string // labels to set on the node once it is ready
	Approve bool              // approve the host's certificate requests; false if the cluster approves them
	Known   []Request         // requests that were approved earlier
}

// HostStatus is the state of a host in its cluster.
type HostStatus struct {
	Node, Ready bool      // the node exists; the node is ready, and no request is pending
	Approved    []Request // the host's approved requests
	Reason      string    // reason of the problem, "" for none
	Problem     string    // the problem in full sentences
}

// Requests lists a cluster's certificate requests. One list is sufficient to check several hosts.
func (c *Client) Requests(ctx context.Context) ([]certificates.CertificateSigningRequest, error) {
	var list certificates.CertificateSigningRequestList
	err := c.objects.list(ctx, place{kind: requestKind}, nil, &list)
	return list.Items, err
}

// Admit approves the valid certificate requests of a host's kubelet, labels its node, and returns
// the state of the host. It is idempotent, because the cluster stores the results.
func (c *Client) Admit(ctx context.Context, host Host,
	requests []certificates.CertificateSigningRequest) (HostStatus, error) {
	host.Name = strings.ToLower(host.Name)
	node, err := c.node(ctx, host.Name)
	if apierrors.IsNotFound(err) {
		node = nil
	} else if err != nil {
		return HostStatus{}, err
	}
	// Times in objects are truncated to whole seconds.
	since := c.clusterTime(host.Started).Truncate(time.Second).Add(-time.Second)
	if node != nil && foreign(node, since) {
		return HostStatus{Reason: ReasonNameTaken,
			Problem: fmt.Sprintf("The cluster already has a node %s that was ready before the installation of the "+
				"host started: it is another machine. "+
				"Give the host another name and install it again, or remove the node (oc delete node %s) if its "+
				"machine no longer exists.", node.Name, node.Name)}, nil
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

// approveAll approves a host's requests. It also reports whether all requests that the node needs
// are approved.
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
			// the request was decided or deleted in the meantime; the next check reads it again
			found.waiting = true
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
	// The cluster deletes approved requests after requestRetention, so that they may be missing.
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

// foreign reports whether a node is not the host but another machine: the node was ready before the
// host's installation started (since, by the cluster's clock) and has been ready since then.
// Otherwise, the node is the same machine before its installation, or a machine that the host
// replaces.
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
