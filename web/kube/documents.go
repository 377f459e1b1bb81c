package kube

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	definitionsv1 "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	crdbuilder "k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/server/mux"
	openapiroutes "k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// documents serves the OpenAPI documents of all kinds. Kubernetes builds them at its start, which
// takes as much CPU time as the rest of the start. Here the first request for a document builds it,
// and a request after a change of the resource definitions builds it again.
type documents struct {
	builtIn     *restful.Container
	v2Config    *common.Config
	v3Config    *common.OpenAPIV3Config
	definitions definitionsv1.CustomResourceDefinitionLister
	logger      *slog.Logger

	v2, v3 document
}

// document is a built document, or a set of them.
type document struct {
	mu      sync.Mutex
	handler http.Handler // nil before the first request
	of      string       // the fingerprint of the definitions in it
}

// definedVersion is a served version of a resource definition.
type definedVersion struct {
	definition *apiextensionsv1.CustomResourceDefinition
	name       string
}

// ServeHTTP serves the paths below /openapi/.
func (d *documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	built, build := &d.v2, d.buildV2
	if strings.HasPrefix(r.URL.Path, "/openapi/v3") {
		built, build = &d.v3, d.buildV3
	}
	current, err := d.current(built, build)
	if err != nil {
		responsewriters.InternalError(w, r, fmt.Errorf("build the OpenAPI document: %w", err))
		return
	}
	current.ServeHTTP(w, r)
}

// current returns the handler of a document, which it builds first if definitions have changed.
func (d *documents) current(built *document, build func([]definedVersion) (http.Handler, error)) (http.Handler, error) {
	definitions, err := d.definitions.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	definitions = slices.DeleteFunc(slices.Clone(definitions), func(c *apiextensionsv1.CustomResourceDefinition) bool {
		return !apihelpers.IsCRDConditionTrue(c, apiextensionsv1.Established)
	})
	slices.SortFunc(definitions, func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return strings.Compare(a.Name, b.Name)
	})
	var fingerprint strings.Builder
	var versions []definedVersion
	for _, c := range definitions {
		fmt.Fprintf(&fingerprint, "%s,%d;", c.UID, c.Generation)
		for _, version := range c.Spec.Versions {
			if version.Served {
				versions = append(versions, definedVersion{c, version.Name})
			}
		}
	}
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.handler != nil && built.of == fingerprint.String() {
		return built.handler, nil
	}
	fresh, err := build(versions)
	if err != nil {
		return nil, err
	}
	built.handler, built.of = fresh, fingerprint.String()
	return fresh, nil
}

func (d *documents) buildV2(versions []definedVersion) (http.Handler, error) {
	builtIn, err := builder.BuildOpenAPISpecFromRoutes(
		restfuladapter.AdaptWebServices(d.builtIn.RegisteredWebServices()), d.v2Config)
	if err != nil {
		return nil, err
	}
	builtIn.Definitions = handler.PruneDefaults(builtIn.Definitions)
	var defined []*spec.Swagger
	for _, version := range versions {
		document, err := crdbuilder.BuildOpenAPIV2(version.definition, version.name,
			crdbuilder.Options{V2: true, IncludeSelectableFields: true})
		if err != nil {
			d.logMissing(version, err)
			continue
		}
		document.Definitions = handler.PruneDefaults(document.Definitions)
		defined = append(defined, document)
	}
	all, err := crdbuilder.MergeSpecs(builtIn, defined...)
	if err != nil {
		return nil, err
	}
	served := mux.NewPathRecorderMux("openapi")
	handler.NewOpenAPIService(all).RegisterOpenAPIVersionedService("/openapi/v2", served)
	return served, nil
}

// buildV3 builds the documents of all groups, and the list of these documents.
func (d *documents) buildV3(versions []definedVersion) (http.Handler, error) {
	served := mux.NewPathRecorderMux("openapi")
	service := openapiroutes.OpenAPI{V3Config: d.v3Config}.InstallV3(d.builtIn, served)
	groups := map[schema.GroupVersion][]*spec3.OpenAPI{}
	for _, version := range versions {
		document, err := crdbuilder.BuildOpenAPIV3(version.definition, version.name,
			crdbuilder.Options{IncludeSelectableFields: true})
		if err != nil {
			d.logMissing(version, err)
			continue
		}
		of := schema.GroupVersion{Group: version.definition.Spec.Group, Version: version.name}
		groups[of] = append(groups[of], document)
	}
	for group, defined := range groups {
		all, err := crdbuilder.MergeSpecsV3(defined...)
		if err != nil {
			return nil, err
		}
		service.UpdateGroupVersion("apis/"+group.Group+"/"+group.Version, all)
	}
	return served, nil
}

// logMissing reports a definition that the documents lack. It must not take the others from them.
func (d *documents) logMissing(version definedVersion, err error) {
	d.logger.Warn("The OpenAPI documents lack a kind of the Kubernetes API.", "definition", version.definition.Name,
		"version", version.name, "error", err)
}
