// Package arm holds the resource model of the resource provider: resource IDs, API versions,
// errors, and the documents of hosted clusters, node pools and external auths as tables of fields.
// It has no state and no HTTP.
//
// The model is that of the provider Microsoft.RedHatOpenShift in github.com/Azure/ARO-HCP.
//
// Design: docs/design.md#hosted-control-planes.
package arm

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"landfall/appliance/fault"
)

// Provider is the namespace of the resource provider.
const Provider = "Microsoft.RedHatOpenShift"

// The resource types without the provider.
const (
	Clusters          = "hcpOpenShiftClusters"
	NodePools         = "nodePools"
	ExternalAuths     = "externalAuths"
	Versions          = "hcpOpenShiftVersions"
	OperationStatuses = "hcpOperationStatuses"
	OperationResults  = "hcpOperationResults"
)

// apiVersions are the versions that a request may name. Their documents are the same, except for
// [CSRVersion].
var apiVersions = []string{"2024-06-10-preview", "2025-12-23-preview", "2026-06-30-preview", CSRVersion}

// CSRVersion is the API version from which a request for a credential contains a certificate
// signing request.
const CSRVersion = "2026-09-01-preview"

// DefaultVersion is the API version of the appliance's own requests.
const DefaultVersion = "2024-06-10-preview"

// Codes of errors.
const (
	CodeInternal                 = "InternalServerError"
	CodeUnavailable              = "ServiceUnavailable"
	CodeInvalidParameter         = "InvalidParameter"
	CodeInvalidContent           = "InvalidRequestContent"
	CodeInvalidResource          = "InvalidResource"
	CodeInvalidResourceType      = "InvalidResourceType"
	CodeMultiple                 = "MultipleErrorsOccurred"
	CodeMediaType                = "UnsupportedMediaType"
	CodeCanceled                 = "Canceled"
	CodeConflict                 = "Conflict"
	CodeNotFound                 = "NotFound"
	CodeInvalidSubscriptionState = "InvalidSubscriptionState"
	CodeSubscriptionNotFound     = "SubscriptionNotFound"
	CodeResourceNotFound         = "ResourceNotFound"
	CodeInvalidSubscriptionID    = "InvalidSubscriptionID"
	CodeInvalidResourceName      = "InvalidResourceName"
	CodeInvalidGroupName         = "InvalidResourceGroupName"
)

// Error is an error of the resource provider.
type Error struct {
	Kind    fault.Kind `json:"-"`
	Code    string     `json:"code"`
	Message string     `json:"message"`
	Target  string     `json:"target,omitempty"` // path of a field
	Details []*Error   `json:"details,omitempty"`
}

// Error implements error.
func (e *Error) Error() string {
	if len(e.Details) == 0 {
		return e.Message
	}
	var all []string
	for _, detail := range e.Details {
		all = append(all, detail.Message)
	}
	return strings.Join(all, " ")
}

// FaultKind implements fault.Classified.
func (e *Error) FaultKind() fault.Kind { return e.Kind }

// Errorf returns an error with a code.
func Errorf(kind fault.Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Fieldf returns an error of a field of a request's body.
func Fieldf(target, format string, args ...any) *Error {
	return &Error{Kind: fault.Invalid, Code: CodeInvalidContent, Target: target, Message: fmt.Sprintf(format, args...)}
}

// join returns nil, the only error, or an error with details.
func join(errs []*Error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return &Error{Kind: fault.Invalid, Code: CodeMultiple, Message: "Several fields of the request are invalid.",
		Details: errs}
}

// CheckVersion returns an error unless a request may name an API version.
func CheckVersion(version string) error {
	if version == "" {
		return Errorf(fault.Invalid, CodeInvalidParameter, "The request has no api-version; add the query parameter "+
			"api-version=%s.", DefaultVersion)
	}
	if !slices.ContainsFunc(apiVersions, func(known string) bool { return strings.EqualFold(known, version) }) {
		return Errorf(fault.Invalid, CodeInvalidResourceType, "The api-version %q is unknown; use one of %s.", version,
			strings.Join(apiVersions, ", "))
	}
	return nil
}

// NeedsCSR reports whether a request for a credential must contain a certificate signing request.
func NeedsCSR(version string) bool { return strings.ToLower(version) >= CSRVersion }

// ID identifies a resource. Its names have the spelling of the request that made the resource.
type ID struct {
	Subscription string `json:"subscription"`
	Group        string `json:"group"`
	Cluster      string `json:"cluster"`
	Child        string `json:"child,omitempty"`      // node pool or external auth
	ChildType    string `json:"child_type,omitempty"` // NodePools or ExternalAuths
}

// String returns the ID as a path.
func (id ID) String() string {
	path := "/subscriptions/" + id.Subscription + "/resourceGroups/" + id.Group + "/providers/" + Provider + "/" +
		Clusters + "/" + id.Cluster
	if id.Child != "" {
		path += "/" + id.ChildType + "/" + id.Child
	}
	return path
}

// Key returns the key of a resource, which is the same for all spellings of its ID.
func (id ID) Key() string {
	key := strings.ToLower(id.Subscription + "/" + id.Group + "/" + id.Cluster)
	if id.Child != "" {
		key += "/" + strings.ToLower(id.ChildType+"/"+id.Child)
	}
	return key
}

// Parent returns the ID of the cluster.
func (id ID) Parent() ID {
	id.Child, id.ChildType = "", ""
	return id
}

// Name returns the name of the resource.
func (id ID) Name() string {
	if id.Child != "" {
		return id.Child
	}
	return id.Cluster
}

// Type returns the type of the resource with the provider.
func (id ID) Type() string {
	if id.Child != "" {
		return Provider + "/" + Clusters + "/" + id.ChildType
	}
	return Provider + "/" + Clusters
}

var (
	groupForm   = regexp.MustCompile(`^[\pL\pN_.()-]{0,89}[\pL\pN_()-]$`)
	clusterForm = regexp.MustCompile(`^[a-zA-Z]([-a-zA-Z0-9]{0,52}[a-zA-Z0-9])?$`)
	childForm   = regexp.MustCompile(`^[a-zA-Z]([-a-zA-Z0-9]{0,13}[a-zA-Z0-9])?$`)
)

// CheckSubscription returns an error unless the text is the ID of a subscription.
func CheckSubscription(subscription string) error {
	if _, err := uuid.Parse(subscription); err != nil || len(subscription) != 36 {
		return Errorf(fault.Invalid, CodeInvalidSubscriptionID, "The subscription %q is not a UUID.", subscription)
	}
	return nil
}

// Check returns an error for an ID with an invalid part. Empty parts are not checked.
func (id ID) Check() error {
	if err := CheckSubscription(id.Subscription); err != nil {
		return err
	}
	if id.Group != "" && !groupForm.MatchString(id.Group) {
		return Errorf(fault.Invalid, CodeInvalidGroupName, "The name %q of the resource group is invalid; use 1 to 90 "+
			"letters, digits, and _ - . ( ), without a dot at the end.", id.Group)
	}
	if id.Cluster != "" && !clusterForm.MatchString(id.Cluster) {
		return Errorf(fault.Invalid, CodeInvalidResourceName, "The name %q of the cluster is invalid; use at most 54 "+
			"letters, digits and hyphens, with a letter first and no hyphen at the end.", id.Cluster)
	}
	if id.Child != "" && !childForm.MatchString(id.Child) {
		return Errorf(fault.Invalid, CodeInvalidResourceName, "The name %q is invalid; use at most 15 letters, digits "+
			"and hyphens, with a letter first and no hyphen at the end.", id.Child)
	}
	return nil
}

// literals are the segments of paths that have one meaning at their place. A segment is compared
// without case.
var literals = []string{"subscriptions", "resourceGroups", "providers", Provider, Clusters, NodePools, ExternalAuths,
	Versions, OperationStatuses, OperationResults, "locations", "deployments", "preflight", "operations",
	"requestAdminCredential", "revokeCredentials"}

// CanonicalPath returns a path with the usual spelling of the words that are not names. Paths of
// other APIs stay unchanged.
func CanonicalPath(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !strings.EqualFold(first, "subscriptions") && !strings.EqualFold(first, "providers") {
		return path
	}
	segments := strings.Split(path, "/")
	for i := 1; i < len(segments); i++ {
		if isName(segments, i) {
			continue
		}
		for _, literal := range literals {
			if strings.EqualFold(segments[i], literal) {
				segments[i] = literal
			}
		}
	}
	return strings.Join(segments, "/")
}

// isName reports whether a segment of a path is a name that a person chose, so that a group may
// have the name "providers". Behind the provider, words and names alternate.
func isName(segments []string, i int) bool {
	at := 1 // of the word providers
	if strings.EqualFold(segments[1], "subscriptions") {
		if at = 3; len(segments) > 3 && strings.EqualFold(segments[3], "resourceGroups") {
			at = 5
		}
		if i == 2 || i == 4 && at == 5 {
			return true
		}
	}
	return i >= at+3 && (i-at)%2 == 1
}
