package fastjson_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/store/fastjson"
)

// fill sets a value of any type to random contents. Optional parts are absent in one of three
// cases.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case strfmt.DateTime:
		v.Set(reflect.ValueOf(strfmt.DateTime(time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC())))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if r.IntN(3) > 0 && depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth == 0 || r.IntN(3) == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fill(r, v.Index(i), depth-1)
		}
	case reflect.Map:
		if depth == 0 || r.IntN(3) == 0 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(r, key, depth-1)
			fill(r, value, depth-1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && r.IntN(4) > 0 {
				fill(r, v.Field(i), depth)
			}
		}
	case reflect.Interface:
		if r.IntN(2) == 0 && v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(map[string]any{"a": 1.5, "b": []any{"c", nil}}))
		}
	case reflect.String:
		texts := []string{"", "plain", "ü€😀", "<&>\u2028\u2029\x00\x1f\x7f", "\xff\xfe bad", `"quoted\"`, "a\tb\nc"}
		v.SetString(texts[r.IntN(len(texts))])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		v.SetInt(r.Int64() >> r.IntN(63))
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		v.SetUint(r.Uint64() >> (1 + r.IntN(62)))
	case reflect.Float64, reflect.Float32:
		v.SetFloat([]float64{0, 1, 1.5, 1e21, 1e-7, 123456789.25, -0.1}[r.IntN(7)])
	}
}

func TestModels_matchEncodingJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, sample := range []any{
		models.Cluster{}, models.ClusterList{}, models.Host{}, models.HostList{}, models.InfraEnv{},
		models.InfraEnvList{}, models.Event{}, models.EventList{},
		models.Steps{}, models.Inventory{}, models.Credentials{}, models.PresignedURL{}, models.Error{},
		models.InfraError{}, models.ClusterDefaultConfig{},
		models.PreflightHardwareRequirements{}, models.OpenshiftVersions{}, models.HostRegistrationResponse{},
		models.ListManifests{}, models.MonitoredOperator{},
		models.ConnectivityReport{}, models.DomainResolutionResponse{}, models.ManagedDomain{}, models.ListVersions{},
		models.Bundle{},
	} {
		name := reflect.TypeOf(sample).Name()
		for range 300 {
			value := reflect.New(reflect.TypeOf(sample))
			fill(r, value.Elem(), 6)
			for _, v := range []any{value.Interface(), value.Elem().Interface()} {
				want, wantErr := json.Marshal(v)
				got, err := fastjson.Marshal(v)
				require.Equal(t, wantErr == nil, err == nil, name)
				require.Equal(t, string(want), string(got), name)
				var written bytes.Buffer
				require.NoError(t, fastjson.Write(&written, v), name)
				require.Equal(t, string(want)+"\n", written.String(), name)

				standard, own := reflect.New(reflect.TypeOf(sample)), reflect.New(reflect.TypeOf(sample))
				wantErr, err = json.Unmarshal(want, standard.Interface()), fastjson.UnmarshalOwn(want, own.Interface())
				require.Equal(t, wantErr == nil, err == nil, name)
				require.Equal(t, standard.Interface(), own.Interface(), name)
			}
		}
	}
}
