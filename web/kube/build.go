package kube

import (
	"net/http"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/compatibility"

	"landfall/appliance/kube/objects"
)

// bodyLimit is the largest request body in bytes, as in a cluster's API server.
const bodyLimit = 3 << 20

// build creates the API server for all kinds.
func (s *Server) build(client *kubernetes.Client) (*extensions.CustomResourceDefinitions, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	codecs := serializer.NewCodecFactory(scheme)
	config := s.config(scheme)
	at := storages{client: client, db: s.options.DB, box: s.options.Box, viewOf: s.viewOf}
	definitionsAt, customAt, builtInAt := at, at, at
	definitionsAt.codec = extensions.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion)
	customAt.codec = unstructured.UnstructuredJSONScheme
	builtInAt.codec = storedJSON(codecs)
	config.RESTOptionsGetter = definitionsAt
	complete := (&extensions.Config{
		GenericConfig: config, ExtraConfig: extensions.ExtraConfig{CRDRESTOptionsGetter: customAt, MasterCount: 1},
	}).Complete()
	complete.GenericConfig.EnableDiscovery = true
	server, err := complete.New(genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	api := server.GenericAPIServer
	groups, err := groupsOf(scheme, codecs, builtInAt)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		if group.PrioritizedVersions[0].Group == "" {
			err = api.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, group)
		} else {
			err = api.InstallAPIGroup(group)
		}
		if err != nil {
			return nil, err
		}
	}
	api.Handler.NonGoRestfulMux.HandlePrefix("/openapi/", &documents{
		builtIn: api.Handler.GoRestfulContainer, v2Config: config.OpenAPIConfig, v3Config: config.OpenAPIV3Config,
		definitions: server.Informers.Apiextensions().V1().CustomResourceDefinitions().Lister(),
		logger:      s.options.Logger,
	})
	return server, nil
}

// config returns the server's configuration. The server connects to no other process.
func (s *Server) config(scheme *runtime.Scheme) *genericapiserver.RecommendedConfig {
	config := genericapiserver.NewRecommendedConfig(extensions.Codecs)
	config.ExternalAddress = s.options.Address
	config.EffectiveVersion = version{compatibility.DefaultBuildEffectiveVersion()}
	config.LoopbackClientConfig = s.Client()
	config.Authentication.Authenticator = s.authenticator()
	config.Authorization.Authorizer = authorizer.AuthorizerFunc(authorize)
	config.AdmissionControl = admission.NewChainHandler(append([]admission.Interface{
		s.inNamespaces(), namespaceRules{s.options.DB, s.options.Objects}, definitionRules{},
	}, s.options.Admission...)...)
	config.EnableIndex, config.EnableProfiling, config.EnableMetrics = false, false, false
	config.MaxRequestBodyBytes = bodyLimit
	config.RequestTimeout = time.Minute
	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		handler = withoutStoring(withoutLargeAliases(handler))
		return genericapiserver.DefaultBuildHandlerChain(handler, c) // after the authorization
	}
	resources := serverstorage.NewResourceConfig()
	resources.EnableVersions(apiextensionsv1.SchemeGroupVersion)
	config.MergedResourceConfig = resources
	namer := openapi.NewDefinitionNamer(extensions.Scheme, scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.SkipOpenAPIInstallation = true // see documents
	config.OpenAPIConfig.Info.Title, config.OpenAPIV3Config.Info.Title = "Landfall", "Landfall"
	return config
}

// withoutStoring lets no client or proxy store objects, which may be Secrets or contain URLs with
// tokens. It does not change the lists of kinds and their schemas, which kubectl stores.
func withoutStoring(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && info.IsResourceRequest {
			w.Header().Set("Cache-Control", "no-store")
		}
		next.ServeHTTP(w, r)
	})
}

// groupsOf returns the groups of the built-in kinds.
func groupsOf(scheme *runtime.Scheme, codecs serializer.CodecFactory,
	at storages) ([]*genericapiserver.APIGroupInfo, error) {
	stored := map[schema.GroupVersion]map[string]rest.Storage{
		authorizationv1.SchemeGroupVersion: {"selfsubjectaccessreviews": accessReview{},
			"selfsubjectrulesreviews": rulesReview{}},
		authenticationv1.SchemeGroupVersion: {"selfsubjectreviews": userReview{}},
	}
	add := func(version schema.GroupVersion, name string, storage rest.Storage) {
		if stored[version] == nil {
			stored[version] = map[string]rest.Storage{}
		}
		stored[version][name] = storage
	}
	for _, r := range resources(uint64(objects.EventLife / time.Second)) {
		storage, err := newBuiltIn(r, scheme, at)
		if err != nil {
			return nil, err
		}
		add(r.kind.GroupVersion(), r.plural, storage)
		if r.kind.Kind == "Event" {
			add(eventsv1.SchemeGroupVersion, r.plural, storage)
		}
	}
	namespaces, err := newNamespaces(scheme, at)
	if err != nil {
		return nil, err
	}
	core := corev1.SchemeGroupVersion
	add(core, "namespaces", namespaces)
	add(core, "namespaces/status", namespacePart{namespaces.status})
	add(core, "namespaces/finalize", namespacePart{namespaces.finalize})
	parameters := runtime.NewParameterCodec(scheme)
	var groups []*genericapiserver.APIGroupInfo
	for _, group := range builtIn() {
		info := genericapiserver.NewDefaultAPIGroupInfo(group.version.Group, scheme, parameters, codecs)
		info.VersionedResourcesStorageMap[group.version.Version] = stored[group.version]
		groups = append(groups, &info)
	}
	return groups, nil
}
