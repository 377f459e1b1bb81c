package site

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror"
)

func TestRules_problemsOfOtherLevelsRemain(t *testing.T) {
	env, cluster := mirror.Level{InfraEnv: "e"}, mirror.Level{Cluster: "c"}
	r := &Rules{own: map[mirror.Level]*mirror.Rules{}, layered: map[mirror.Level]*mirror.Client{},
		problems: map[mirror.Level]string{{}: "Own.", env: "Env.", cluster: "Cluster."}}
	require.Equal(t, "Own.", r.problemsAt(mirror.Level{}))
	require.Equal(t, "Own. Env. Cluster.", r.problemsAt(mirror.Level{InfraEnv: "e", Cluster: "c"}))
	r.use(cluster, nil, false)
	require.Equal(t, "Own. Env.", r.problemsAt(mirror.Level{InfraEnv: "e", Cluster: "c"}))
}
