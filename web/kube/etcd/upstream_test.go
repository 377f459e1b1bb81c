package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// This file runs all tests of Kubernetes' storage (k8s.io/apiserver/pkg/storage/testing) over the
// store. Those of lists and watches run over streamed ranges and over pages.

const storedPrefix = "test!"

var errFailing = errors.New("failed on demand")

func TestStorage_upstream(t *testing.T) {
	ctx := context.Background()
	for name, run := range map[string]func(*testing.T, *harness){
		"Create": func(t *testing.T, b *harness) {
			storagetesting.RunTestCreate(ctx,
				t, b, b.stored)
		},
		"CreateWithTTL": func(t *testing.T, b *harness) {
			storagetesting.RunTestCreateWithTTL(ctx,
				t, b)
		},
		"CreateWithKeyExist": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestCreateWithKeyExist(ctx, t, b)
		},
		"Get": func(t *testing.T, b *harness) { storagetesting.RunTestGet(ctx, t, b) },
		"UnconditionalDelete": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestUnconditionalDelete(ctx, t, b)
		},
		"ConditionalDelete": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestConditionalDelete(ctx, t, b)
		},
		"DeleteWithSuggestion": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestDeleteWithSuggestion(ctx, t, b)
		},
		"DeleteWithSuggestionAndConflict": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestDeleteWithSuggestionAndConflict(ctx, t, b)
		},
		"DeleteWithConflict": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestDeleteWithConflict(ctx, t, b)
		},
		"DeleteWithSuggestionOfDeletedObject": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestDeleteWithSuggestionOfDeletedObject(ctx, t, b)
		},
		"ValidateDeletionWithSuggestion": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestValidateDeletionWithSuggestion(ctx, t, b)
		},
		"ValidateDeletionOnlySuggestionValid": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestValidateDeletionWithOnlySuggestionValid(ctx, t, b)
		},
		"PreconditionalDeleteWithSuggestion": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestPreconditionalDeleteWithSuggestion(ctx, t, b)
		},
		"PreconditionalDeleteOnlySuggestion": func(t *testing.T, b *harness) {
			storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass(ctx, t, b)
		},
		"GetListNonRecursive": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, b.raise, b)
		},
		"GetListRecursivePrefix": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestGetListRecursivePrefix(ctx, t, b)
		},
		"ListContinuation": func(t *testing.T, b *harness) {
			storagetesting.RunTestListContinuation(ctx,
				t, b, b.calls)
		},
		"ListPaginationRareObject": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, b, b.calls)
		},
		"ListContinuationWithFilter": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, b, b.calls)
		},
		"ListInconsistentContinuation": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, b, b.compact)
		},
		"ListResourceVersionMatch": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestListResourceVersionMatch(ctx, t, b)
		},
		"ListPaging": func(t *testing.T, b *harness) {
			storagetesting.RunTestListPaging(ctx,
				t, b)
		},
		"NamespaceScopedList": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestNamespaceScopedList(ctx, t, b)
		},
		"KeySchema": func(t *testing.T, b *harness) { storagetesting.RunTestKeySchema(ctx, t, b) },
		"GuaranteedUpdate": func(t *testing.T, b *harness) {
			storagetesting.RunTestGuaranteedUpdate(ctx,
				t, b, b.stored)
		},
		"GuaranteedUpdateWithTTL": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestGuaranteedUpdateWithTTL(ctx, t, b)
		},
		"GuaranteedUpdateChecksStoredData": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestGuaranteedUpdateChecksStoredData(ctx, t, b)
		},
		"GuaranteedUpdateWithConflict": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestGuaranteedUpdateWithConflict(ctx, t, b)
		},
		"GuaranteedUpdateSuggestionAndConflict": func(t *testing.T, b *harness) {
			storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict(ctx, t, b)
		},
		"TransformationFailure": func(t *testing.T, b *harness) {
			storagetesting.RunTestTransformationFailure(ctx,
				t, b)
		},
		"Stats": func(t *testing.T, b *harness) {
			storagetesting.RunTestStats(ctx, t, b, b.codec,
				b.transformer, false)
		},
		"StatsBySizesOfKeys": func(t *testing.T, b *harness) {
			require.NoError(t, b.EnableResourceSizeEstimation(b.keys))
			storagetesting.RunTestStats(ctx, t, b, b.codec, b.transformer, true)
		},
		"CompactRevision": func(t *testing.T, b *harness) {
			storagetesting.RunTestCompactRevision(ctx, t, b, b.raise,
				b.compact)
		},
	} {
		t.Run(name, func(t *testing.T) { run(t, newBench(t)) })
	}
}

func TestStorage_deleteUnreadable(t *testing.T) {
	ctx := context.Background()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.AllowUnsafeMalformedObjectDeletion, true)
	var broken *failing
	badCodec := func(b *harness) {
		broken = &failing{Codec: b.codec}
		b.codec = broken
	}
	badTransformer := func(b *harness) {
		broken = &failing{Transformer: *b.transformer.now.Load()}
		b.transformer.set(struct{ value.Transformer }{broken})
	}
	t.Run("MissingExpectedError", func(t *testing.T) {
		b := newBench(t, badCodec)
		storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, b, broken.fail.Store)
	})
	t.Run("ExpectedTransformError", func(t *testing.T) {
		b := newBench(t, badTransformer)
		storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, b, broken.fail.Store)
	})
	t.Run("ExpectedDecodeError", func(t *testing.T) {
		b := newBench(t, badCodec)
		storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, b, broken.fail.Store)
	})
	t.Run("SuggestionAndMissingExpectedError", func(t *testing.T) {
		storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, newBench(t))
	})
}

func TestStorage_listUnreadable(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.AllowUnsafeMalformedObjectDeletion, false)
	storagetesting.RunTestGetListWithoutErrorAggregation(context.Background(), t, newBench(t), corrupt(t))
}

func TestStorage_listAllUnreadable(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.AllowUnsafeMalformedObjectDeletion, true)
	b := newBench(t)
	b.Interface = etcd3.NewStoreWithUnsafeCorruptObjectDeletion(b.Interface, schema.GroupResource{Resource: "pods"})
	storagetesting.RunTestGetListWithErrorAggregation(context.Background(), t, b, corrupt(t))
}

func TestStorage_watchUnreadable(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.AllowUnsafeMalformedObjectDeletion, true)
	storagetesting.RunTestWatchWithUnsafeDelete(context.Background(), t, newBench(t), corrupt(t))
}

// both runs a test over streamed ranges and over pages.
func both(t *testing.T, run func(t *testing.T, streamed bool)) {
	for _, streamed := range []bool{false, true} {
		t.Run(fmt.Sprintf("streamed=%v", streamed), func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.EtcdRangeStream,
				streamed)
			run(t, streamed)
		})
	}
}

func TestStorage_consistentLists(t *testing.T) {
	ctx := context.Background()
	both(t, func(t *testing.T, streamed bool) {
		t.Run("List", func(t *testing.T) {
			b := newBench(t)
			storagetesting.RunTestList(ctx, t, b, b.compact, false, b.lists)
			require.Equal(t, streamed, b.reads.GetStreamReadsAndReset() > 0)
		})
		t.Run("ConsistentList", func(t *testing.T) {
			b := newBench(t)
			storagetesting.RunTestConsistentList(ctx, t, b, b.raise, false, true, false)
		})
	})
}

func TestStorage_watches(t *testing.T) {
	ctx := context.Background()
	for name, run := range map[string]func(*testing.T, *harness){
		"Watch": func(t *testing.T, b *harness) {
			storagetesting.RunTestWatch(ctx,
				t, b)
		},
		"ClusterScopedWatch": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestClusterScopedWatch(ctx, t, b)
		},
		"NamespaceScopedWatch": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestNamespaceScopedWatch(ctx, t, b)
		},
		"DeleteTriggerWatch": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestDeleteTriggerWatch(ctx, t, b)
		},
		"WatchFromZero": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestWatchFromZero(ctx, t, b, b.compact)
		},
		"WatchFromNonZero": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestWatchFromNonZero(ctx, t, b)
		},
		"DelayedWatchDelivery": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestDelayedWatchDelivery(ctx, t, b)
		},
		"WatchError": func(t *testing.T, b *harness) {
			storagetesting.RunTestWatchError(ctx,
				t, b)
		},
		"WatchContextCancel": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestWatchContextCancel(ctx, t, b)
		},
		"WatcherTimeout": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestWatcherTimeout(ctx, t, b)
		},
		"WatchDeleteEventObjectHaveLatestRV": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV(ctx, t, b)
		},
		"WatchInitializationSignal": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestWatchInitializationSignal(ctx, t, b)
		},
		"ProgressNotify": func(t *testing.T,
			b *harness) {
			storagetesting.RunOptionalTestProgressNotify(ctx, t, b, b.raise)
		},
		"WatchDispatchBookmarkEvents": func(t *testing.T,
			b *harness) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, b, false)
		},
		"SendInitialEventsBackwardCompatibility": func(t *testing.T,
			b *harness) {
			storagetesting.RunSendInitialEventsBackwardCompatibility(ctx, t, b)
		},
		"WatchBookmarksWithCorrectResourceVersion": func(t *testing.T, b *harness) {
			b.Interface = bookmarking{b.Interface}
			storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion(ctx, t, b)
		},
		"WatchErrorIsBlockingFurtherEvents": func(t *testing.T,
			b *harness) {
			storagetesting.RunWatchErrorIsBlockingFurtherEvents(ctx, t, b)
		},
	} {
		t.Run(name, func(t *testing.T) { run(t, newBench(t)) })
	}
	both(t, func(t *testing.T, _ bool) {
		t.Run("WatchSemantics", func(t *testing.T) { storagetesting.RunWatchSemantics(ctx, t, newBench(t)) })
		t.Run("WatchSemanticsWithConcurrentDecode", func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
				features.ConcurrentWatchObjectDecode, true)
			storagetesting.RunWatchSemantics(ctx, t, newBench(t))
		})
		t.Run("WatchSemanticInitialEventsExtended",
			func(t *testing.T) { storagetesting.RunWatchSemanticInitialEventsExtended(ctx, t, newBench(t)) })
		t.Run("WatchListMatchSingle", func(t *testing.T) {
			storagetesting.RunWatchListMatchSingle(ctx,
				t, newBench(t))
		})
	})
}
