import type { Progress, Stage, State } from './api';

/** A part of a lane of the picture; left and width are percentages of the lane. */
export type Segment = { name: string; state: State; left: number; width: number; seconds: number };

/** The span of time that the picture shows, in milliseconds. */
export type Span = { start: number; end: number; now: number };

/**
 * The span of the picture of an installation: from its start to its end. The end of a running one
 * is the estimated end, or else the present. `later` is the time since the answer, in milliseconds.
 */
export const spanOf = (progress: Progress, later: number): Span => {
  const start = Date.parse(progress.started_at ?? progress.at);
  if (progress.ended_at) {
    const end = Date.parse(progress.ended_at);
    return { start, end: Math.max(end, start + 1), now: end };
  }
  const now = Date.parse(progress.at) + later;
  const left = Math.max(0, (progress.estimate?.seconds ?? 0) * 1000 - later);
  return { start, end: Math.max(now + left, start + 1000), now };
};

/** The parts of a lane. Stages that have not begun are left out, because their time is unknown. */
export const segmentsOf = (stages: readonly Stage[], { start, end, now }: Span): Segment[] =>
  stages.flatMap((stage) => {
    if (!stage.started_at) {
      return [];
    }
    const from = Date.parse(stage.started_at);
    const runs = stage.state === 'running' || stage.state === 'blocked';
    const until = runs ? now : from + (stage.seconds ?? 0) * 1000;
    const whole = end - start;
    const left = share(from - start, whole);
    return [
      {
        name: stage.name,
        state: stage.state,
        left,
        width: Math.min(100 - left, share(until - from, whole)),
        seconds: Math.max(0, (until - from) / 1000),
      },
    ];
  });

const share = (part: number, whole: number): number => Math.min(100, Math.max(0, (100 * part) / whole));

/** Steps of the time axis in seconds. */
const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400];

/** At most five marks of the time axis: seconds since the start, and their place in percent. */
export const marksOf = ({ start, end }: Span): { seconds: number; left: number }[] => {
  const whole = (end - start) / 1000;
  const step = steps.find((one) => whole / one <= 5) ?? whole / 5;
  const marks = [];
  for (let seconds = 0; seconds <= whole; seconds += step) {
    marks.push({ seconds, left: share(seconds, whole) });
  }
  return marks;
};
