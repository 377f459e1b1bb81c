package kube

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"landfall/appliance/access"
	"landfall/appliance/engine/description"
	"landfall/appliance/kube/objects"
)

// hiddenText replaces a hidden text. It is the text of the REST API, and it is not valid JSON.
const hiddenText = "hidden: only administrators can read it"

// hiddenPath is the path of a hidden URL.
const hiddenPath = "/hidden-from-viewers"

// lastApplied is the annotation in which kubectl keeps a copy of the object.
const lastApplied = corev1.LastAppliedConfigAnnotation

// hiddenField is a field that some roles may not read. It may contain a password, a key or a token.
type hiddenField struct {
	path  []string    // "*" stands for each key of an object and each item of a list
	least access.Role // the smallest role that may read the field
	hide  func(text string, role access.Role) string
	// stands reports whether a text can only come from an object with hidden fields.
	stands func(text string) bool
}

// hiddenFields are the hidden fields of a kind.
type hiddenFields []hiddenField

func constant(hidden string, path []string) hiddenField {
	return hiddenField{path, access.Administrator, func(string, access.Role) string { return hidden },
		func(text string) bool { return text == hidden }}
}

func hideText(path ...string) hiddenField { return constant(hiddenText, path) }

func hideAnnotation(name string) hiddenField { return hideText("metadata", "annotations", name) }

// hideBase64 hides a text in base64.
func hideBase64(path ...string) hiddenField {
	return constant(base64.StdEncoding.EncodeToString([]byte(hiddenText)), path)
}

// hidePassword hides the password of a URL.
func hidePassword(path ...string) hiddenField {
	return hiddenField{path, access.Administrator,
		func(text string, _ access.Role) string { return description.HideURLPassword(text) },
		func(text string) bool { return strings.Contains(text, ":"+description.HiddenPassword+"@") }}
}

// hideLink hides the path and the query of a URL, which contain the token of an image.
func hideLink(path ...string) hiddenField {
	return hiddenField{path, access.Operator, func(text string, _ access.Role) string {
		parsed, err := url.Parse(text)
		if err != nil {
			return hiddenText
		}
		return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: hiddenPath}).String()
	}, func(text string) bool { return strings.HasSuffix(text, hiddenPath) }}
}

// hideCopy hides fields in an annotation that contains a copy of the object in JSON. Its content
// has no effect, so a text that stands for a hidden one may be stored there.
func hideCopy(name string, fields hiddenFields) hiddenField {
	return hiddenField{[]string{"metadata", "annotations", name}, access.Administrator,
		func(copied string, role access.Role) string {
			var object map[string]any
			if json.Unmarshal([]byte(copied), &object) != nil {
				return "{}"
			}
			if !fields.hide(object, role) {
				return copied
			}
			hidden, err := json.Marshal(object)
			if err != nil {
				return "{}"
			}
			return string(hidden)
		}, func(string) bool { return false }}
}

// hide hides the fields that a role may not read. It reports whether it has changed the object.
func (f hiddenFields) hide(object map[string]any, role access.Role) (changed bool) {
	for _, field := range f {
		if role >= field.least {
			continue
		}
		visit(object, field.path, nil, func(_ []string, text string) string {
			hidden := field.hide(text, role)
			changed = changed || hidden != text
			return hidden
		})
	}
	return changed
}

// restore replaces the hidden fields that a role sends back as it has read them by the stored
// fields. It returns an error for other fields with a text that stands for a hidden one.
func (f hiddenFields) restore(object, stored map[string]any, role access.Role) (err error) {
	for _, field := range f {
		visit(object, field.path, nil, func(at []string, sent string) string {
			before := valueAt(stored, at)
			switch {
			case sent == before:
			case role < field.least && before != "" && sent == field.hide(before, role):
				return before
			case field.stands(sent):
				err = apierrors.NewBadRequest(fmt.Sprintf("the field %s contains a text that stands for a hidden "+
					"value; give the value itself", strings.Join(at, ".")))
			}
			return sent
		})
	}
	return err
}

// visit replaces all texts at a path. An empty text is no value.
func visit(value any, path, at []string, replace func(at []string, text string) string) {
	each := func(name string, item any, set func(string)) {
		here := append(slices.Clip(at), name)
		if text, ok := item.(string); ok && len(path) == 1 {
			if text != "" {
				if now := replace(here, text); now != text {
					set(now)
				}
			}
		} else if len(path) > 1 {
			visit(item, path[1:], here, replace)
		}
	}
	switch value := value.(type) {
	case map[string]any:
		if path[0] != "*" {
			if item, ok := value[path[0]]; ok {
				each(path[0], item, func(text string) { value[path[0]] = text })
			}
			return
		}
		for name, item := range value {
			each(name, item, func(text string) { value[name] = text })
		}
	case []any:
		for i, item := range value {
			if name := strconv.Itoa(i); path[0] == "*" || path[0] == name {
				each(name, item, func(text string) { value[i] = text })
			}
		}
	}
}

// valueAt returns the text at a path without "*"; "" if there is none.
func valueAt(value any, path []string) (found string) {
	visit(value, path, nil, func(_ []string, text string) string {
		found = text
		return text
	})
	return found
}

// hiddenOf returns the hidden fields of a kind. Secrets are not here: only administrators may read
// them at all.
func hiddenOf(resource schema.GroupResource) hiddenFields {
	var fields hiddenFields
	switch resource {
	case groupResourceOf(objects.ConfigMaps): // manifests of clusters
		fields = hiddenFields{hideText("data", "*"), hideBase64("binaryData", "*")}
	case groupResourceOf(objects.InfraEnvs):
		fields = hiddenFields{hideText("spec", "ignitionConfigOverride"),
			hidePassword("spec", "proxy", "httpProxy"), hidePassword("spec", "proxy", "httpsProxy"),
			hideLink("status", "isoDownloadURL"), hideLink("status", "bootArtifacts", "*"),
			hideLink("status", "debugInfo", "staticNetworkDownloadURL")}
	case groupResourceOf(objects.Agents):
		fields = hiddenFields{hideText("spec", "ignitionConfigOverrides"), hideText("spec", "installerArgs"),
			hideText("spec", "ignitionEndpointHTTPHeaders", "*")}
	case groupResourceOf(objects.AgentClusterInstalls):
		fields = hiddenFields{hideAnnotation("agent-install.openshift.io/install-config-overrides"),
			hidePassword("spec", "proxy", "httpProxy"), hidePassword("spec", "proxy", "httpsProxy"),
			hidePassword("spec", "ignitionEndpoint", "url")}
	case groupResourceOf(objects.BareMetalHosts):
		fields = hiddenFields{hideAnnotation("bmac.agent-install.openshift.io/ignition-config-overrides"),
			hideAnnotation("bmac.agent-install.openshift.io/installer-args"),
			hidePassword("spec", "bmc", "address"),
			hidePassword("spec", "image", "url"), hideLink("spec", "image", "url"),
			hidePassword("status", "provisioning", "image", "url"), hideLink("status", "provisioning", "image", "url")}
		fields = append(fields, hideCopy("baremetalhost.metal3.io/status", hiddenFields{
			hidePassword("provisioning", "image", "url"), hideLink("provisioning", "image", "url")}))
	case groupResourceOf(objects.PreprovisioningImages):
		fields = hiddenFields{hideLink("status", "imageUrl"), hideLink("status", "kernelUrl")}
	case groupResourceOf(objects.AgentServiceConfigs):
		fields = hiddenFields{hidePassword("spec", "osImages", "*", "url"), hidePassword("spec", "osImages", "*",
			"rootFSUrl")}
	case groupResourceOf(objects.KlusterletAddonConfigs):
		fields = hiddenFields{hidePassword("spec", "proxyConfig", "httpProxy"), hidePassword("spec", "proxyConfig",
			"httpsProxy"),
			hidePassword("status", "ocpGlobalProxy", "httpProxy"), hidePassword("status", "ocpGlobalProxy",
				"httpsProxy")}
	default:
		return nil
	}
	return append(fields, hideCopy(lastApplied, fields))
}

// contentOf returns the fields of an object that can be hidden, and a function that writes their
// changes into the object.
func contentOf(object runtime.Object) (content map[string]any, write func() error) {
	switch object := object.(type) {
	case *unstructured.Unstructured:
		return object.Object, func() error { return nil }
	case *corev1.ConfigMap:
		annotations, data, binary := map[string]any{}, map[string]any{}, map[string]any{}
		for name, text := range object.Annotations {
			annotations[name] = text
		}
		for name, text := range object.Data {
			data[name] = text
		}
		for name, bytes := range object.BinaryData {
			binary[name] = base64.StdEncoding.EncodeToString(bytes)
		}
		return map[string]any{"metadata": map[string]any{"annotations": annotations}, "data": data,
				"binaryData": binary}, func() error {
				for name, text := range annotations {
					object.Annotations[name] = text.(string)
				}
				for name, text := range data {
					object.Data[name] = text.(string)
				}
				for name, text := range binary {
					bytes, err := base64.StdEncoding.DecodeString(text.(string))
					if err != nil {
						return fmt.Errorf("read binaryData.%s: %w", name, err)
					}
					object.BinaryData[name] = bytes
				}
				return nil
			}
	}
	return nil, func() error { return nil }
}

func groupResourceOf(kind objects.Kind) schema.GroupResource {
	return schema.GroupResource{Group: kind.Group, Resource: kind.Resource}
}
