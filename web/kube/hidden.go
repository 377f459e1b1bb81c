package kube

import (
	"encoding/base64"
	"encoding/json"
	"errors"
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
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"landfall/appliance/access"
	"landfall/appliance/engine/description"
	"landfall/appliance/kube/objects"
	"landfall/ignition"
)

// hiddenText replaces a hidden text. It is the text of the REST API, and it is not valid JSON.
const hiddenText = ignition.HiddenSecret

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
	// restore returns the value for a text of which only parts are hidden; nil for other fields.
	restore func(sent, before string) (string, error)
	// object is true for a field with an object. The functions get its JSON.
	object bool
}

// hiddenFields are the hidden fields of a kind.
type hiddenFields []hiddenField

func constant(hidden string, path []string) hiddenField {
	return hiddenField{path: path, least: access.Administrator,
		hide:   func(string, access.Role) string { return hidden },
		stands: func(text string) bool { return text == hidden }}
}

func hideText(path ...string) hiddenField { return constant(hiddenText, path) }

func hideAnnotation(name string) hiddenField { return hideText("metadata", "annotations", name) }

// hideBase64 hides a text in base64.
func hideBase64(path ...string) hiddenField {
	return constant(base64.StdEncoding.EncodeToString([]byte(hiddenText)), path)
}

// hidePassword hides the password of a URL.
func hidePassword(path ...string) hiddenField {
	return hiddenField{path: path, least: access.Administrator,
		hide:   func(text string, _ access.Role) string { return description.HideURLPassword(text) },
		stands: func(text string) bool { return strings.Contains(text, ":"+description.HiddenPassword+"@") }}
}

// hideLink hides the path and the query of a URL, which contain the token of an image.
func hideLink(path ...string) hiddenField {
	return hiddenField{path: path, least: access.Operator, hide: func(text string, _ access.Role) string {
		parsed, err := url.Parse(text)
		if err != nil {
			return hiddenText
		}
		return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: hiddenPath}).String()
	}, stands: func(text string) bool { return strings.HasSuffix(text, hiddenPath) }}
}

// hideNetwork hides the passwords and keys of a network description.
func hideNetwork(path ...string) hiddenField {
	inJSON := func(text string) string {
		if coded, err := yaml.YAMLToJSON([]byte(text)); err == nil {
			return string(coded)
		}
		return "{}"
	}
	hide := func(text string) string {
		if hidden := ignition.HideNetworkSecrets(text); hidden != text {
			return inJSON(hidden)
		}
		return text
	}
	return hiddenField{path: path, least: access.Administrator, object: true,
		hide: func(text string, _ access.Role) string { return hide(text) },
		restore: func(sent, before string) (string, error) {
			if sent == hide(before) {
				return before, nil
			}
			restored, err := ignition.RestoreNetworkSecrets(sent, before)
			var missing *ignition.NetworkFault
			if errors.As(err, &missing) {
				return "", apierrors.NewBadRequest("the field " + strings.Join(path, ".") + ": " + missing.Sentence())
			}
			if err != nil || restored == sent {
				return sent, err
			}
			return inJSON(restored), nil
		}}
}

// hideCopy hides fields in an annotation that contains a copy of the object in JSON. Its content
// has no effect, so a text that stands for a hidden one may be stored there.
func hideCopy(name string, fields hiddenFields) hiddenField {
	return hiddenField{path: []string{"metadata", "annotations", name}, least: access.Administrator,
		hide: func(copied string, role access.Role) string {
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
		}, stands: func(string) bool { return false }}
}

// hide hides the fields that a role may not read. It reports whether it has changed the object.
func (f hiddenFields) hide(object map[string]any, role access.Role) (changed bool) {
	for _, field := range f {
		if role >= field.least {
			continue
		}
		field.visit(object, func(_ []string, text string) string {
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
		field.visit(object, func(at []string, sent string) string {
			before := field.valueAt(stored, at)
			switch {
			case sent == before:
			case field.restore != nil:
				restored, failure := field.restore(sent, before)
				if failure != nil {
					err = failure
					return sent
				}
				return restored
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

// visit replaces all values of the field in an object. An empty text is no value.
func (f hiddenField) visit(object map[string]any, replace func(at []string, text string) string) {
	f.visitPath(object, f.path, nil, replace)
}

func (f hiddenField) visitPath(value any, path, at []string, replace func(at []string, text string) string) {
	each := func(name string, item any, set func(any)) {
		here := append(slices.Clip(at), name)
		if len(path) > 1 {
			f.visitPath(item, path[1:], here, replace)
			return
		}
		if text, ok := f.text(item); ok && text != "" {
			if now := replace(here, text); now != text {
				set(f.value(now))
			}
		}
	}
	switch value := value.(type) {
	case map[string]any:
		if path[0] != "*" {
			if item, ok := value[path[0]]; ok {
				each(path[0], item, func(now any) { value[path[0]] = now })
			}
			return
		}
		for name, item := range value {
			each(name, item, func(now any) { value[name] = now })
		}
	case []any:
		for i, item := range value {
			if name := strconv.Itoa(i); path[0] == "*" || path[0] == name {
				each(name, item, func(now any) { value[i] = now })
			}
		}
	}
}

// text returns the value of the field as a text.
func (f hiddenField) text(value any) (text string, ok bool) {
	if !f.object {
		text, ok = value.(string)
		return text, ok
	}
	if _, ok := value.(map[string]any); !ok {
		return "", false
	}
	coded, err := json.Marshal(value)
	return string(coded), err == nil
}

// value returns the value for a text of the field.
func (f hiddenField) value(text string) any {
	if !f.object {
		return text
	}
	object := map[string]any{}
	if err := utiljson.Unmarshal([]byte(text), &object); err != nil {
		return map[string]any{}
	}
	return object
}

// valueAt returns the text at a path without "*"; "" if there is none.
func (f hiddenField) valueAt(object map[string]any, path []string) (found string) {
	f.visitPath(object, path, nil, func(_ []string, text string) string {
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
	case groupResourceOf(objects.NMStateConfigs):
		fields = hiddenFields{hideNetwork("spec", "config")}
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
