package kube

import (
	"context"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"landfall/appliance/access"
	"landfall/web/problem"
)

// groupPrefix is the prefix of the groups of users. A role is the group with its name after the
// prefix, for example landfall:viewer.
const groupPrefix = "landfall:"

// limitedGroup is the group of users with a limited scope. The objects of the API do not belong to
// one cluster, so such users may only ask what they may do.
const limitedGroup = groupPrefix + "limited"

// authenticator returns the user of a request, by the identity in its context (web/access).
// Requests without an identity may only read the health and the version of the API.
func (s *Server) authenticator() authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		identity := access.From(r.Context())
		if s.options.Open {
			identity = access.Identity{Kind: access.Open, Role: access.Administrator}
		}
		switch found := userOf(identity); {
		case found != nil:
			return &authenticator.Response{User: found}, true, nil
		case publicPath(r.URL.Path):
			return &authenticator.Response{User: &user.DefaultInfo{Name: user.Anonymous,
				Groups: []string{user.AllUnauthenticated}}}, true, nil
		}
		return nil, false, nil
	})
}

// userOf returns the user for an identity, or nil if the identity may not use the API.
func userOf(identity access.Identity) *user.DefaultInfo {
	found := &user.DefaultInfo{Name: identity.Name, Groups: []string{groupPrefix + identity.Role.String(),
		user.AllAuthenticated}}
	switch identity.Kind {
	case access.Open:
		found.Name = "kube:admin"
	case access.Person:
	case access.Program:
		found.Name = "token:" + identity.Name
		if identity.Certificate != "" {
			found.Name = "certificate:" + identity.Name
		}
	default:
		return nil
	}
	switch {
	case identity.Scope.Limited():
		found.Groups = []string{limitedGroup, user.AllAuthenticated}
	case identity.Role == access.Administrator:
		found.Groups = append(found.Groups, user.SystemPrivilegedGroup)
	}
	return found
}

// publicPath reports whether a path shows only the health or the version of the API.
func publicPath(path string) bool {
	return slices.ContainsFunc([]string{"/healthz", "/livez", "/readyz", "/version"}, func(public string) bool {
		return path == public || strings.HasPrefix(path, public+"/")
	})
}

// roleOf returns the role of a user by the user's groups.
func roleOf(u user.Info) access.Role {
	largest := access.None
	if u == nil {
		return largest
	}
	for _, group := range u.GetGroups() {
		if name, ok := strings.CutPrefix(group, groupPrefix); ok {
			if role, err := access.ParseRole(name); err == nil {
				largest = max(largest, role)
			}
		}
	}
	return largest
}

// readOnly reports whether only the appliance may write a resource.
func readOnly(group, name string) bool {
	return group == "apps" && name == "deployments" || slices.ContainsFunc(emptyResources(),
		func(r resource) bool { return r.kind.Group == group && r.plural == name })
}

// ofAdministrators reports whether only administrators may write a resource: the definitions of
// resources, the releases that may be installed, and the settings of the service.
func ofAdministrators(group, resource string) bool {
	switch group {
	case "apiextensions.k8s.io":
		return true
	case "hive.openshift.io":
		return resource == "clusterimagesets"
	case "agent-install.openshift.io":
		return resource == "agentserviceconfigs"
	case "metal3.io":
		return resource == "baremetalhosts" // its address receives the password in its Secret
	}
	return false
}

// selfReview reports whether a resource shows the user's own rights. Every user may create it.
func selfReview(group, resource string) bool {
	return (group == authorizationv1.GroupName || group == authenticationv1.GroupName) &&
		strings.HasPrefix(resource, "selfsubject")
}

// mayDo reports whether a user may do something, or why not.
func mayDo(a authorizer.Attributes) (bool, string) {
	// A provider of the site may give a person any name, but not this group.
	if isMember(a.GetUser(), user.SystemPrivilegedGroup) && a.GetUser().GetName() == user.APIServerUser {
		return true, ""
	}
	role := roleOf(a.GetUser())
	if !a.IsResourceRequest() {
		if role == access.None && !publicPath(a.GetPath()) && !isMember(a.GetUser(), limitedGroup) {
			return false, "this path requires an account or a token"
		}
		return a.IsReadOnly() || role == access.Administrator, "only administrators may write this path"
	}
	group, resource := a.GetAPIGroup(), a.GetResource()
	secret := group == "" && resource == "secrets"
	switch {
	case selfReview(group, resource) && a.GetUser() != nil && isMember(a.GetUser(), user.AllAuthenticated):
		return true, ""
	case isMember(a.GetUser(), limitedGroup):
		return false, "accounts, tokens and certificates for only some clusters cannot use the Kubernetes API"
	case role == access.None:
		return false, "this operation requires an account or a token"
	case !a.IsReadOnly() && readOnly(group, resource):
		return false, "only the appliance writes these objects; clients can only read them"
	case role == access.Administrator:
		return true, ""
	case a.GetVerb() == "impersonate":
		return false, "only administrators may impersonate others"
	case secret && a.IsReadOnly():
		return false, "only administrators may read Secrets"
	case a.IsReadOnly():
		return true, ""
	case role < access.Operator:
		return false, "this operation requires the role operator"
	case secret || ofAdministrators(group, resource):
		return false, "this operation requires the role admin"
	}
	return true, ""
}

func isMember(u user.Info, group string) bool {
	return u != nil && slices.Contains(u.GetGroups(), group)
}

func authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if ok, why := mayDo(a); !ok {
		return authorizer.DecisionDeny, why, nil
	}
	return authorizer.DecisionAllow, "", nil
}

// accessReview answers kubectl auth can-i.
type accessReview struct{}

func (accessReview) New() runtime.Object     { return new(authorizationv1.SelfSubjectAccessReview) }
func (accessReview) Destroy()                {}
func (accessReview) NamespaceScoped() bool   { return false }
func (accessReview) GetSingularName() string { return "selfsubjectaccessreview" }
func (accessReview) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview")
}

func (accessReview) Create(ctx context.Context, object runtime.Object, _ rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	review := object.(*authorizationv1.SelfSubjectAccessReview)
	about := authorizer.AttributesRecord{}
	about.User, _ = request.UserFrom(ctx)
	if r := review.Spec.ResourceAttributes; r != nil {
		about.Verb, about.APIGroup, about.Resource, about.Subresource, about.ResourceRequest = r.Verb, r.Group,
			r.Resource, r.Subresource, true
		about.Namespace, about.Name = r.Namespace, r.Name
	} else if r := review.Spec.NonResourceAttributes; r != nil {
		about.Verb, about.Path = r.Verb, r.Path
	}
	review.Status.Allowed, review.Status.Reason = mayDo(about)
	if review.Status.Allowed {
		review.Status.Reason = ""
	}
	review.Status.Denied = !review.Status.Allowed
	return review, nil
}

// userReview answers kubectl auth whoami.
type userReview struct{ accessReview }

func (userReview) New() runtime.Object     { return new(authenticationv1.SelfSubjectReview) }
func (userReview) GetSingularName() string { return "selfsubjectreview" }
func (userReview) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview")
}

func (userReview) Create(ctx context.Context, object runtime.Object, _ rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	review := object.(*authenticationv1.SelfSubjectReview)
	if caller, ok := request.UserFrom(ctx); ok {
		review.Status.UserInfo = authenticationv1.UserInfo{Username: caller.GetName(), Groups: caller.GetGroups()}
	}
	return review, nil
}

// refused answers a request whose credentials are not accepted, with the reason. Without
// credentials, everybody may read the health and the version of the API. It reports whether it has
// answered.
func refused(w http.ResponseWriter, r *http.Request) bool {
	failure := access.Failure(r.Context())
	if failure == nil || publicPath(r.URL.Path) {
		return false
	}
	found := problem.From(failure)
	reason := metav1.StatusReasonUnauthorized
	switch found.Status {
	case http.StatusForbidden:
		reason = metav1.StatusReasonForbidden
	case http.StatusServiceUnavailable:
		reason = metav1.StatusReasonServiceUnavailable
	}
	responsewriters.WriteRawJSON(found.Status, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(found.Status), Reason: reason, Message: found.Reason}, w)
	return true
}

// rulesReview answers kubectl auth can-i --list.
type rulesReview struct{ accessReview }

func (rulesReview) New() runtime.Object     { return new(authorizationv1.SelfSubjectRulesReview) }
func (rulesReview) GetSingularName() string { return "selfsubjectrulesreview" }
func (rulesReview) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview")
}

// Create lists the rules of the user's role. Rules cannot name exceptions, so the list is
// incomplete for viewers and operators, who may read everything except Secrets.
func (rulesReview) Create(ctx context.Context, object runtime.Object, _ rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	review := object.(*authorizationv1.SelfSubjectRulesReview)
	caller, _ := request.UserFrom(ctx)
	everything := func(verbs ...string) []authorizationv1.ResourceRule {
		return []authorizationv1.ResourceRule{{Verbs: verbs, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	}
	reviews := authorizationv1.ResourceRule{Verbs: []string{"create"}, APIGroups: []string{authorizationv1.GroupName},
		Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}}
	switch roleOf(caller) {
	case access.Administrator:
		review.Status.ResourceRules = everything("*")
	case access.Operator, access.Viewer:
		review.Status.Incomplete = true
		review.Status.EvaluationError = "the list omits exceptions: Secrets, and resources that only administrators " +
			"may write; ask with kubectl auth can-i"
		review.Status.ResourceRules = append(everything("get", "list", "watch"), reviews)
		if roleOf(caller) == access.Operator {
			review.Status.ResourceRules = append(everything("*"), reviews)
		}
	default:
		review.Status.ResourceRules = []authorizationv1.ResourceRule{reviews}
	}
	review.Status.NonResourceRules = []authorizationv1.NonResourceRule{{Verbs: []string{"get"},
		NonResourceURLs: []string{"*"}}}
	return review, nil
}
