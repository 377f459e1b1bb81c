package kube

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Every client has all permissions, as in the other APIs of the appliance. Only writes of certain
// resources are forbidden, for every client.

// readOnly reports whether only the appliance may write a resource.
func readOnly(group, resource string) bool { return group == "apps" && resource == "deployments" }

func mayDo(a authorizer.Attributes) (bool, string) {
	if a.GetUser() != nil && a.GetUser().GetName() == user.APIServerUser {
		return true, ""
	}
	if readOnly(a.GetAPIGroup(), a.GetResource()) && !a.IsReadOnly() {
		return false, "only the appliance writes these objects; clients can only read them"
	}
	return true, ""
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
	}
	review.Status.Allowed, review.Status.Reason = mayDo(about)
	review.Status.Denied = !review.Status.Allowed
	return review, nil
}

// rulesReview answers kubectl auth can-i --list.
type rulesReview struct{ accessReview }

func (rulesReview) New() runtime.Object     { return new(authorizationv1.SelfSubjectRulesReview) }
func (rulesReview) GetSingularName() string { return "selfsubjectrulesreview" }
func (rulesReview) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview")
}

func (rulesReview) Create(_ context.Context, object runtime.Object, _ rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	review := object.(*authorizationv1.SelfSubjectRulesReview)
	review.Status.ResourceRules = []authorizationv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"},
		Resources: []string{"*"}}}
	review.Status.NonResourceRules = []authorizationv1.NonResourceRule{{Verbs: []string{"get"},
		NonResourceURLs: []string{"*"}}}
	return review, nil
}
