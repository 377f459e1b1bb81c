package canonical

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/network"
)

// anything sets a value of any type to random content.
func anything(r *rand.Rand, v reflect.Value) {
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC()
		return
	case *strfmt.DateTime:
		*at = strfmt.DateTime(time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC())
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.SetZero(); r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			anything(r, v.Elem())
		}
	case reflect.Slice:
		if v.SetZero(); r.IntN(3) > 0 {
			n := r.IntN(3)
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				anything(r, v.Index(i))
			}
		}
	case reflect.Map:
		if v.SetZero(); r.IntN(3) > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range r.IntN(3) {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				anything(r, key)
				anything(r, value)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && r.IntN(3) > 0 {
				anything(r, v.Field(i))
			}
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf([]any{"b", "a", 1.5, map[string]any{"a": true}}[r.IntN(4)]))
	case reflect.String:
		v.SetString([]string{"", "a", "b", "ab", "ü", "\x00", "[]", "null"}[r.IntN(8)])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat(float64(r.IntN(4)) / 2)
	default:
		if v.CanInt() {
			v.SetInt(int64(r.IntN(4)) - 1)
		}
	}
}

// alter changes one field of a value at any depth.
func alter(r *rand.Rand, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil() && r.IntN(3) > 0:
		alter(r, v.Elem())
	case v.Kind() == reflect.Slice && v.Len() > 0 && r.IntN(3) > 0:
		alter(r, v.Index(r.IntN(v.Len())))
	case v.Kind() == reflect.Struct && v.NumField() > 0 && v.Type().Field(0).IsExported():
		alter(r, v.Field(r.IntN(v.NumField())))
	default:
		anything(r, v)
	}
}

func requireEncodedAsJSON[T any](t *testing.T) {
	encode := EncoderOf[T]()
	r := rand.New(rand.NewPCG(1, 1))
	same, other := 0, 0
	for range 300 {
		var value, kept T
		anything(r, reflect.ValueOf(&value).Elem())
		text, err := json.Marshal(&value)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &kept))
		before := encode(nil, &value)
		require.Equal(t, before, encode(nil, &kept), "the decoded value has the same encoding: %s", text)
		for range 5 {
			alter(r, reflect.ValueOf(&kept).Elem())
			altered, err := json.Marshal(&kept)
			require.NoError(t, err)
			if string(altered) == string(text) {
				same++
			} else {
				other++
			}
			require.Equal(t, string(altered) == string(text), string(encode(nil, &kept)) == string(before), "%s\n%s",
				text, altered)
		}
	}
	require.NotZero(t, other)
	require.NotZero(t, same)
}

// inputKinds has fields of all kinds, including kinds that present inputs do not use.
type inputKinds struct {
	Flag     *bool                `json:"flag,omitempty"`
	Share    float64              `json:"share"`
	List     []string             `json:"list"`
	Optional []string             `json:"optional,omitempty"`
	Deep     [][]*inputLeaf       `json:"deep"`
	Table    map[string]string    `json:"table"`
	Rare     map[string]string    `json:"rare,omitempty"`
	Leaves   map[string]inputLeaf `json:"leaves"`
	Numbers  map[int]string       `json:"numbers"`
	Any      any                  `json:"any"`
	Hidden   []string             `json:"-"`
}

// peerInputs embeds a list of names without tags.
type peerInputs struct {
	ID, Hostname, Fencing string
	Role                  models.HostRole
	Inventory             bool
}

type inputLeaf struct {
	ID   strfmt.UUID     `json:"id"`
	At   *time.Time      `json:"when"`
	Then strfmt.DateTime `json:"then"`
}

func TestEncoder_differsWhereJSONDoes(t *testing.T) {
	t.Run("host", requireEncodedAsJSON[models.Host])
	t.Run("infra-env", requireEncodedAsJSON[models.InfraEnv])
	t.Run("cluster", requireEncodedAsJSON[models.Cluster])
	t.Run("groups", requireEncodedAsJSON[network.Groups])
	t.Run("others", requireEncodedAsJSON[inputKinds])
	t.Run("peer", requireEncodedAsJSON[peerInputs])
	t.Run("catalogs", requireEncodedAsJSON[map[string]string])
}
