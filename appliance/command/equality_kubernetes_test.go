package command

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/views"
	"landfall/appliance/kube/objects"
	"landfall/web/kube/crds"
)

// function is a function or method in a source.
type function struct {
	receiver string
	engine   []string // methods of the engine that it calls
	names    []string // all names in it, and so those of the functions that it calls
	kinds    []string // variables of package objects in it, such as Agents
}

// functionsIn returns the functions in the sources of a package by their names: methods of several
// types can have the same one. It calls each with all nodes of the sources.
func functionsIn(t *testing.T, dir string, each func(ast.Node)) map[string][]*function {
	t.Helper()
	found := map[string][]*function{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(node ast.Node) bool {
			each(node)
			return true
		})
		for _, declared := range parsed.Decls {
			if fn, ok := declared.(*ast.FuncDecl); ok {
				found[fn.Name.Name] = append(found[fn.Name.Name], readFunction(fn))
			}
		}
	}
	require.NotEmpty(t, found, dir)
	return found
}

func readFunction(fn *ast.FuncDecl) *function {
	read := new(function)
	if fn.Recv != nil {
		receiver := fn.Recv.List[0].Type
		if pointer, ok := receiver.(*ast.StarExpr); ok {
			receiver = pointer.X
		}
		if name, ok := receiver.(*ast.Ident); ok { // not of a generic type
			read.receiver = name.Name
		}
	}
	ast.Inspect(fn, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Ident:
			read.names = append(read.names, node.Name)
		case *ast.SelectorExpr:
			if of, ok := node.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Engine" {
				read.engine = append(read.engine, node.Sel.Name)
			} else if of, ok := node.X.(*ast.Ident); ok && of.Name == "objects" {
				read.kinds = append(read.kinds, node.Sel.Name)
			}
		}
		return true
	})
	return read
}

// engineMethods returns the methods of the engine that a function calls, also by other functions of
// its package, but not by the methods of the given types.
func engineMethods(all map[string][]*function, from *function, without []string) (methods []string) {
	seen := map[*function]bool{from: true}
	for todo := []*function{from}; len(todo) > 0; {
		fn := todo[0]
		todo = todo[1:]
		methods = append(methods, fn.engine...)
		for _, name := range fn.names {
			for _, called := range all[name] {
				if !seen[called] && !slices.Contains(without, called.receiver) {
					seen[called] = true
					todo = append(todo, called)
				}
			}
		}
	}
	return methods
}

// reconciled returns the kinds whose reconcilers call each method of the engine, and the kinds that
// these reconcilers watch.
func reconciled(t *testing.T) map[string][]string {
	t.Helper()
	kindOf := map[string]string{} // by the names of their variables
	functionsIn(t, "../kube/objects", func(node ast.Node) {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return
		}
		value, ok := spec.Values[0].(*ast.CompositeLit)
		if of, isName := typeOf(value); ok && isName && of == "Kind" {
			kindOf[spec.Names[0].Name] = textOf(value.Elts[2])
		}
	})
	require.Len(t, kindOf, len(objects.Kinds()))
	calls := map[string][]string{}
	for _, dir := range []string{"clusters", "hosts", "metal"} {
		all := functionsIn(t, "../kube/"+dir, func(ast.Node) {})
		var reconcilers []string
		for _, fn := range all["Reconcile"] {
			reconcilers = append(reconcilers, fn.receiver)
		}
		require.NotEmpty(t, reconcilers, dir)
		for _, fn := range all["Reconcile"] {
			var kinds []string
			for _, about := range slices.Concat(all["Kind"], all["Watches"]) {
				if about.receiver == fn.receiver {
					for _, name := range about.kinds {
						kinds = append(kinds, kindOf[name])
					}
				}
			}
			others := slices.DeleteFunc(slices.Clone(reconcilers),
				func(name string) bool { return name == fn.receiver })
			for _, method := range engineMethods(all, fn, others) {
				calls[method] = append(calls[method], kinds...)
			}
		}
	}
	return calls
}

func typeOf(literal *ast.CompositeLit) (name string, ok bool) {
	if literal == nil {
		return "", false
	}
	of, ok := literal.Type.(*ast.Ident)
	if !ok {
		return "", false
	}
	return of.Name, true
}

// textOf returns the value of a text in a source, or "".
func textOf(node ast.Expr) string {
	literal, ok := node.(*ast.BasicLit)
	if !ok {
		return ""
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return text
}

// methodsOfOperations returns the methods of the engine that the REST operations of the Assisted
// Installer call, by the IDs of the operations.
func methodsOfOperations(t *testing.T) map[string][]string {
	t.Helper()
	handlers := map[string]string{}
	all := functionsIn(t, "../../web/api", func(node ast.Node) {
		literal, ok := node.(*ast.CompositeLit)
		if !ok {
			return
		}
		id, handler := "", ""
		for _, element := range literal.Elts {
			field, ok := element.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			switch key, _ := field.Key.(*ast.Ident); {
			case key == nil:
			case key.Name == "ID":
				id = textOf(field.Value)
			case key.Name == "Handler":
				if value, ok := field.Value.(*ast.SelectorExpr); ok {
					handler = value.Sel.Name
				}
			}
		}
		if id != "" && handler != "" {
			handlers[id] = handler
		}
	})
	methods := map[string][]string{}
	for id, handler := range handlers {
		for _, fn := range all[handler] {
			methods[id] = append(methods[id], engineMethods(all, fn, nil)...)
		}
	}
	require.Contains(t, methods["v2RegisterCluster"], "RegisterCluster")
	return methods
}

var (
	namedKind  = regexp.MustCompile("`([A-Z]\\w+)`")
	namedField = regexp.MustCompile(`\b(?:spec|status)\b(?:\.\w+)*`)
)

func kindsIn(line string) (kinds []string) {
	for _, found := range namedKind.FindAllStringSubmatch(line, -1) {
		kinds = append(kinds, found[1])
	}
	return kinds
}

// checkKubernetes compares the lines of the Kubernetes API with the reconcilers and with the
// definitions of the resources.
func checkKubernetes(t *testing.T, all []apiOperation) {
	t.Helper()
	reconcilers, methods, schemas := reconciled(t), methodsOfOperations(t), schemasOfKinds(t)
	served := []string{"SelfSubjectReview"} // of Kubernetes itself
	for _, kind := range objects.Kinds() {
		served = append(served, kind.Kind)
	}
	for _, kind := range views.Kinds(true) {
		served = append(served, kind.Kind)
	}
	for _, o := range all {
		line := kubernetesOf[o.id]
		for _, kind := range kindsIn(line) {
			require.Contains(t, served, kind, "kubernetesOf[%q]: the Kubernetes API has no such kind", o.id)
		}
		for _, field := range namedField.FindAllString(line, -1) {
			require.True(t, slices.ContainsFunc(kindsIn(line),
				func(kind string) bool { return hasField(schemas[kind], field) }),
				"kubernetesOf[%q]: none of its kinds has %s", o.id, field)
		}
		if o.method == http.MethodGet {
			continue
		}
		for _, method := range methods[o.id] {
			kinds := reconcilers[method]
			if len(kinds) == 0 {
				continue
			}
			reason, _ := reasonFor("kubernetes", o)
			known := slices.ContainsFunc(kindsIn(line), func(kind string) bool { return slices.Contains(kinds, kind) })
			require.True(t, known || line == "" && reason != noKind && reason != ofAppliance,
				"%s: the reconcilers of %s call Engine.%s, too: name the kind in kubernetesOf", o.id, kinds[0], method)
		}
	}
}

// schema is a part of the schema of a kind.
type schema struct {
	Properties map[string]*schema `json:"properties"`
	Items      *schema            `json:"items"`
}

func hasField(of *schema, path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		if of != nil && of.Items != nil {
			of = of.Items
		}
		if of == nil || of.Properties[name] == nil {
			return false
		}
		of = of.Properties[name]
	}
	return true
}

// schemasOfKinds returns the schemas of the kinds with a definition.
func schemasOfKinds(t *testing.T) map[string]*schema {
	t.Helper()
	rows, err := crds.Rows(time.Unix(0, 0))
	require.NoError(t, err)
	schemas := map[string]*schema{}
	for _, row := range rows {
		var definition struct {
			Spec struct {
				Names struct {
					Kind string `json:"kind"`
				} `json:"names"`
				Versions []struct {
					Schema struct {
						OpenAPI *schema `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		require.NoError(t, json.Unmarshal(row.Object, &definition))
		for _, version := range definition.Spec.Versions {
			schemas[definition.Spec.Names.Kind] = version.Schema.OpenAPI
		}
	}
	require.NotNil(t, schemas["Agent"])
	return schemas
}
