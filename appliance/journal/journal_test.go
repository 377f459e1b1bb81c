package journal

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/sitekey"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// version returns the JSON of an object.
func version(t testing.TB, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return text
}

type object = map[string]any

// record makes a recording of three objects: a host that was created, changed and failed, a host
// that was deleted, and an infra-env that existed before.
func record(t testing.TB) *Recording {
	t.Helper()
	old := version(t, object{"api": object{"name": "old env"}, "token": "the-agent-token"})
	first := version(t, object{"api": object{"status": "known", "requested_hostname": "node-1", "updated_at": "1"},
		"endpoint_token": "s3cret-endpoint"})
	second := version(t, object{"api": object{"status": "error", "status_info": "token the-agent-token was refused",
		"requested_hostname": "node-1", "updated_at": "2"}, "endpoint_token": "another-secret"})
	secrets := new(Secrets)
	for _, text := range [][]byte{old, first, second} {
		require.NoError(t, secrets.AddFrom(text))
	}
	builder, err := NewBuilder(secrets.Redactor(), map[string][]byte{"/hosts/e/h": second, "/infra-envs/e": old})
	require.NoError(t, err)
	require.NoError(t, builder.Add(Step{Revision: 4, At: noon.Add(2 * time.Second), Operation: "v2PostStepReply",
		Host: "h", Reply: &Reply{Type: "install", ExitCode: 1, Error: "password: hunter22"}}, []Past{
		{Revision: 4, Key: "/hosts/e/h", Before: first, After: second},
		{Revision: 5, Key: "/hosts/e/gone", Before: first},
	}))
	require.NoError(t, builder.Add(Step{Revision: 2, At: noon, Operation: "v2RegisterHost"}, []Past{
		{Revision: 2, Key: "/hosts/e/h", After: first},
		{Revision: 3, Key: "/hosts/e/gone", After: first},
	}))
	recording, err := builder.Recording()
	require.NoError(t, err)
	recording.ClusterID, recording.ClusterName, recording.MadeAt, recording.Revision = "c", "demo", noon.Add(time.Hour),
		5
	return recording
}

func TestReplay(t *testing.T) {
	recording := record(t)
	require.Len(t, recording.Base, 1)
	require.JSONEq(t, `{"api":{"name":"old env"},"token":"[redacted]"}`, string(recording.Base[0].Value))
	replayer, err := NewReplayer(recording)
	require.NoError(t, err)
	describer := NewDescriber(recording.Base)

	applied, err := replayer.Apply()
	require.NoError(t, err)
	require.Equal(t, Description{Actor: "host", Operation: "RegisterHost",
		Lines: []Line{{"host", "host node-1 was created, ready"},
			{"host", "host node-1 was created, ready"}}}, withoutDelay(describer.Describe(applied)))
	require.Equal(t, "known", textAt(replayer.State()["/hosts/e/h"], "api", "status"))

	applied, err = replayer.Apply()
	require.NoError(t, err)
	description := describer.Describe(applied)
	require.Equal(t, "node-1", description.Actor)
	require.Equal(t, "reply to install (0 bytes)", description.Operation)
	require.Equal(t, 2*time.Second, description.Delay)
	require.Equal(t, []Line{
		{"report", "install ended with 1: password: [redacted]"},
		{"host", "host node-1 changed from ready to failed. token [redacted] was refused"},
		{"host", "host node-1 was deleted"},
	}, withoutDelay(description).Lines)
	require.Nil(t, replayer.Next())
	require.NoError(t, replayer.Finish())
	require.Len(t, replayer.State(), 2)

	again, err := NewReplayer(recording)
	require.NoError(t, err)
	require.NoError(t, again.Finish())
}

// withoutDelay clears the delay, which has a test of its own.
func withoutDelay(description Description) Description {
	description.Delay = 0
	return description
}

func TestRecording_hasNoPastOrPresentSecret(t *testing.T) {
	text := string(version(t, record(t)))
	for _, secret := range []string{"the-agent-token", "s3cret-endpoint", "another-secret", "hunter22"} {
		require.NotContains(t, text, secret)
	}
}

func TestReplay_damagedRecording(t *testing.T) {
	for name, c := range map[string]struct {
		damage  func(*Recording)
		message string
	}{
		"a step is missing": {func(r *Recording) { r.Steps = r.Steps[1:] },
			"step 2: /hosts/e/h: the step changes the object, but it does not exist"},
		"a duplicate step": {func(r *Recording) { r.Steps = append(r.Steps[:1:1], r.Steps...) },
			"step 1: /hosts/e/h: the step creates the object, but it exists already"},
		"the deleted object does not exist": {func(r *Recording) { r.Steps[0].Changes = r.Steps[0].Changes[:1] },
			"step 2: /hosts/e/gone: the step deletes the object, but it does not exist"},
		"the last step is missing": {func(r *Recording) { r.Steps = r.Steps[:1] }, "the recording is incomplete"},
		"the base is missing":      {func(r *Recording) { r.Base = nil }, "the recording is incomplete"},
		"an altered patch": {func(r *Recording) {
			r.Steps[1].Changes[0].Patch[0].Value = json.RawMessage(
				`"fine"`)
		}, "is not the recorded object"},
		"a patch of a missing object": {
			func(r *Recording) { r.Steps[1].Changes[0].Patch[0].Path = "/api/nothing/at/all" },
			"the patch does not fit the object"},
		"invalid JSON in the base": {func(r *Recording) { r.Base[0].Value = json.RawMessage(`{`) },
			"read /infra-envs/e"},
	} {
		t.Run(name, func(t *testing.T) {
			recording := record(t)
			c.damage(recording)
			replayer, err := NewReplayer(recording)
			if err == nil {
				err = replayer.Finish()
			}
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestState_hash(t *testing.T) {
	hash, err := State{"/b": object{"z": json.Number("1.50"), "a": []any{"<&>", nil, true}}, "/a": "x"}.Hash()
	require.NoError(t, err)
	// printf '/a "x"\n/b {"a":["<&>",null,true],"z":1.50}\n' | sha256sum
	require.Equal(t, "badd42dd72650063ce13f2410dea5460204e6c4a79a2c419a8626b6aac02d914", hash)
}

// TestReplay_randomHistories creates, changes and deletes rows at random, and replays the
// recording.
func TestReplay_randomHistories(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var value func(depth int) any
	value = func(depth int) any {
		switch random.IntN(6 - min(depth, 3)) {
		case 0:
			return random.IntN(3)
		case 1:
			return fmt.Sprintf("text %d ~/", random.IntN(3))
		case 2:
			return nil
		case 3:
			list := make([]any, random.IntN(4))
			for i := range list {
				list[i] = value(depth + 1)
			}
			return list
		}
		made := object{}
		for range random.IntN(5) {
			made[fmt.Sprintf("member/%d~", random.IntN(6))] = value(depth + 1)
		}
		return made
	}
	for range 60 {
		present := make(map[string][]byte)
		var steps [][]Past
		revision := uint64(0)
		for range 1 + random.IntN(12) {
			var step []Past
			for range 1 + random.IntN(3) {
				revision++
				past := Past{Revision: revision, Key: fmt.Sprintf("/hosts/%d", random.IntN(3))}
				past.Before = present[past.Key]
				if past.Before == nil || random.IntN(4) > 0 {
					past.After = version(t, value(0))
					present[past.Key] = past.After
				} else {
					delete(present, past.Key)
				}
				step = append(step, past)
			}
			steps = append(steps, step)
		}
		builder, err := NewBuilder(new(Secrets).Redactor(), present)
		require.NoError(t, err)
		for i := len(steps) - 1; i >= 0; i-- {
			require.NoError(t, builder.Add(Step{Revision: steps[i][0].Revision}, steps[i]))
		}
		recording, err := builder.Recording()
		require.NoError(t, err)
		require.Empty(t, recording.Base)
		replayer, err := NewReplayer(recording)
		require.NoError(t, err)
		require.NoError(t, replayer.Finish())
	}
}

func TestPatch_invalidEdit(t *testing.T) {
	for _, edit := range []Edit{
		{Op: opAdd, Path: "", Value: json.RawMessage(`1`)}, {Op: opReplace, Path: "a", Value: json.RawMessage(`1`)},
		{Op: opReplace, Path: "/list/9", Value: json.RawMessage(`1`)},
		{Op: opReplace, Path: "/list/-1", Value: json.RawMessage(`1`)}, {Op: opRemove, Path: "/list/0"},
		{Op: opAdd, Path: "/list/0", Value: json.RawMessage(`1`)},
		{Op: opAdd, Path: "/text/x", Value: json.RawMessage(`1`)}, {Op: "move", Path: "/text"},
		{Op: opReplace, Path: "/text", Value: json.RawMessage(`{`)}, {Op: opRemove, Path: "/none"},
		{Op: opAdd, Path: "/text", Value: json.RawMessage(`1`)},
	} {
		_, _, err := edit.apply(object{"list": []any{1}, "text": "t"})
		require.ErrorIs(t, err, errPatch, edit)
	}
}

func siteKey(t testing.TB) *sitekey.Key {
	t.Helper()
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	return key
}
