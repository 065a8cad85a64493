"use strict";
/* Plans for other links and limits, from the counts of every option. The same choice as validation/planning/aims.py. */

const data = JSON.parse(document.getElementById("data").textContent);
const asked = data.request;
const byId = (id) => document.getElementById(id);
const [DRAFTS, PASSES, EXCHANGES, VERIFIED, UP, DOWN, SKIPPED, SERVER_DRAFTS] =
  "drafts passes exchanges verified up_bits down_bits skipped server_drafts".split(" ").map((name) => data.count_names.indexOf(name));
const OURS = "ours", STREAMED = "shared seed, streamed", SERVER = "server alone", SEED_TREE = "shared seed tree", STREAM = "server alone, streaming", COLOCATED = "server with its own draft", OWN_GREEDY = "server with greedy drafts", KEEPING = "server keeping sure drafts", OWN_TREE = "server with its own tree", CERTIFIED = "DSSD certified", DEVICE = "device alone", GREEDY = "greedy drafts";
const PAPERS = ["fixed K, full rows", GREEDY, "HLM", "U-HLM", "CU-HLM", "SQS", "FlexSpec", SEED_TREE];
const UNRUN = [KEEPING, OWN_TREE], OWN_DRAFTS = [COLOCATED, OWN_GREEDY], WITHOUT_DEVICE = [SERVER, STREAM, ...OWN_DRAFTS, KEEPING, OWN_TREE], NO_RIVALS = [CERTIFIED, STREAMED, OURS];
const POLICIES = [...WITHOUT_DEVICE, DEVICE, ...PAPERS, CERTIFIED, ...(data.streamed ? [STREAMED] : []), OURS];
const TOKENS = data.count_names.indexOf("tokens"), EQUAL = 1e-9, LATER = 1e-9, ENDLESS = 1e9, AS_GOOD = 0.005;
const MENU = data.menu.map((one) => ({ ...one, train: one.counts.train, test: one.counts.test }));

/** A server that repeats the rounds of a device that keeps drafts without verification: one that streams and drafts itself. */
function repeated(option) {
  const sure = option.policy === OURS && option.codec === 0 && option.threshold !== null;
  const stream = MENU.find(({ policy }) => policy === STREAM);
  if (!sure || !stream) return [];
  const counts = (part) => option[part].map((value, i) => (i === SERVER_DRAFTS ? option[part][DRAFTS] : i === DOWN ? stream[part][DOWN]
    : [DRAFTS, UP, EXCHANGES].includes(i) ? 0 : value));
  return [{ ...option, policy: KEEPING, option: `K = ${option.draft_length}, u ≤ ${option.threshold}`, top_k: [0, 0], paper_threshold: false,
    train: counts("train"), test: counts("test") }];
}
const EVERY = [...MENU, ...(MENU.some(({ policy }) => policy === COLOCATED) ? MENU.flatMap(repeated) : [])];
const options = (...policies) => EVERY.filter((one) => policies.includes(one.policy));
const POOLS = Object.fromEntries(POLICIES.map((policy) => [policy, options(policy)]));

// ------------------------------------------------------------------------------------------------ link and speed

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const MEDIAN = 0, SLOW = 1, LATE = 2; // shares of the time: half, 95%, and that of the limit of latency

/** The rate that the link has or exceeds in one of these shares of the time: the exact quantile of its law. */
function exceeded(s, share) {
  if (data.recorded) return (data.recorded.at_bps[share] * s.rate) / RECORDED;
  if (s.fading === "none") return s.rate;
  return (s.rate * Math.log1p(s.snr * data.snr_exceeded[s.fading][share])) / Math.log1p(s.snr);
}

function ratesOf(s) {
  if (data.recorded) return data.recorded.rates_bps.map((rate) => (rate * s.rate) / RECORDED);
  if (s.fading === "none") return [s.rate];
  return data.snr_quantiles[s.fading].map((x) => (s.rate * Math.log1p(s.snr * x)) / Math.log1p(s.snr));
}
const RECORDED = data.recorded ? mean(data.recorded.rates_bps) : 0;

/** A setting with the numbers of its link, which all options share. */
function withLink(s) {
  const rates = ratesOf(s), median = exceeded(s, MEDIAN);
  return { ...s, serverDraft: ownDraftOf(s), rates, mean: mean(rates), median, slow: exceeded(s, SLOW), late: exceeded(s, LATE),
    down: asked.down_bps ?? (median || rates.find((rate) => rate > 0)) };
}

/** Values at places on straight lines; beyond the last one the last slope goes on, if it rises. */
function along(at, places, values) {
  const last = places.length - 1, i = Math.min(Math.max(places.findIndex((one) => at <= one), 1), Math.max(last, 1));
  if (!last || at <= places[0]) return values[0];
  if (at >= places[last]) return values[last] + (at - places[last]) * Math.max((values[last] - values[last - 1]) / (places[last] - places[last - 1]), 0);
  return values[i - 1] + ((at - places[i - 1]) / (places[i] - places[i - 1])) * (values[i] - values[i - 1]);
}

/** A measured pass over so many tokens of each of so many texts. */
const measuredPass = ({ batches, widths, table }, width, texts) => along(texts, batches, table.map((row) => along(width, widths, row)));
/** A mean pass of these counts over so many texts, as measured if it was. */
function passTime(c, s, batch = 1) {
  if (!(c[PASSES] > 0)) return 0;
  const width = c[VERIFIED] / c[PASSES];
  return asked.passes ? measuredPass(asked.passes, width, batch) : s.verify + batch * width * s.token;
}
/** A draft on the server for one text, as in validation/planning/request.py: if it is not given, by the ratio of parameters. */
function ownDraftOf(s) {
  const pass = asked.passes ? measuredPass(asked.passes, 1, 1) : s.verify;
  return s.ownDraft ?? +(1e3 * Math.min(data.ratio ? pass / data.ratio : Infinity, s.draft)).toPrecision(3) / 1e3;
}
/** And for each of so many texts: its pass grows with them as measured. */
const ownDrafts = (s, batch) => s.serverDraft * (asked.draft_passes ? measuredPass(asked.draft_passes, 1, batch) / measuredPass(asked.draft_passes, 1, 1) : 1);
/** The part of the server's time that a text takes of passes that so many texts share, with drafts of the server's own. */
const served = (c, s, batch = 1) => (c[PASSES] * passTime(c, s, batch) + c[SERVER_DRAFTS] * ownDrafts(s, batch)
  + (c[PASSES] - c[EXCHANGES]) * asked.between_s) / batch;
const load = (c, s) => served(c, s, s.batch);
const fixed = (c, s) => c[DRAFTS] * s.draft + served(c, s) + c[EXCHANGES] * (s.roundTrip + data.exchange_s) + c[DOWN] / s.down;
const air = (bits, rate) => (rate > 0 ? bits / rate : bits > 1e-9 ? Infinity : 0);
const seconds = (c, s, rate) => fixed(c, s) + air(c[UP], rate);
const roundSeconds = (c, s, rate) => c[PASSES] > 1e-9 ? (seconds(c, s, rate) - c[SKIPPED] * s.draft) / c[PASSES] : s.draft;
const joules = (c, s) => c[DRAFTS] * s.draft * asked.device_w + (c[UP] / Math.max(s.median, 1e-9)) * asked.transmit_w;
/** In the mean over time, in passes of so many texts. */
function meanSpeed(c, s, batch = 1) {
  const base = fixed(c, s) + batch * served(c, s, batch) - served(c, s);
  return s.rates.reduce((sum, rate) => sum + 1 / (base + air(c[UP], rate)), 0) / s.rates.length;
}

/** What the objective maximises, in these units. */
const UNITS = { throughput: "tokens/s, mean over time", fair: "tokens/s, mean over time", capacity: "tokens/s of a full server",
  goodput: "tokens/s in time, mean over time", cost: "tokens for a price of 1" };
function value(c, s) {
  if (s.objective === "capacity") return 1 / Math.max(load(c, s), 1e-12);
  if (s.objective === "cost") {
    const base = fixed(c, s), wait = s.rates.reduce((sum, rate) => sum + Math.min(base + air(c[UP], rate), 1e12), 0) / s.rates.length;
    return 1 / (asked.server_price * served(c, s) + asked.time_price * wait);
  }
  if (s.objective === "goodput" && s.latency) {
    return mean(s.rates.map((rate) => roundSeconds(c, s, rate) <= s.latency.seconds ? 1 / seconds(c, s, rate) : 0));
  }
  return meanSpeed(c, s);
}
/** What decides between equal values. */
const second = (c, s) => (s.objective === "capacity" ? meanSpeed(c, s) : -load(c, s));

/** At least the value: seconds are convex in the rate, so their mean is at least those at the mean rate, and speeds the reverse. */
const atMost = (c, s) => (s.objective === "capacity" ? value(c, s)
  : s.objective === "cost" ? 1 / (asked.server_price * served(c, s) + asked.time_price * Math.min(seconds(c, s, s.mean), 1e11)) : 1 / seconds(c, s, s.mean));

// -------------------------------------------------------------------------------------------------- choice

/** The device of ours that drafts on, as [option]: its passes follow the times. [] where it does not apply. The same as
    validation/planning/streamed.py. */
function streamedAt(s) {
  const limited = s.latency || s.energy !== null || s.objective !== "throughput" || s.token > 0;
  if (!data.streamed || limited || data.streamed.message_bits > s.draft * Math.min(...s.rates)) return [];
  const counts = (streaks) => {
    const c = data.count_names.map(() => 0);
    c[TOKENS] = 1;
    streaks.forEach((cycles, accepted) => {
      const along = s.draft < s.verify, passes = 1 + (along ? Math.ceil(accepted * (s.draft / s.verify) * (1 + LATER)) : accepted);
      c[DRAFTS] += cycles * (along ? 1 : passes - accepted * (s.verify / s.draft));
      c[PASSES] += cycles * passes;
      c[EXCHANGES] += cycles;
    });
    c[UP] = c[EXCHANGES] * data.streamed.message_bits;
    c[DOWN] = c[PASSES] * data.streamed.reply_bits;
    return c;
  };
  const [train, test, both] = ["train", "test", "all"].map((part) => counts(data.streamed.streaks[part]));
  return [{ policy: STREAMED, option: `drafts on, ${both[PASSES].toFixed(2)} passes a token`, train, test,
    draft_length: 1, threshold: null, top_k: [0, 0], loss: { text: 0, token: 0 }, lossless: true, paper_threshold: true }];
}
const STREAMS = new WeakMap();
function streamed(s) {
  if (!STREAMS.has(s)) STREAMS.set(s, streamedAt(s));
  return STREAMS.get(s);
}
/** The options of a policy; of trees, which cost nothing where a token does not, none then. */
function poolOf(policy, s) {
  if (policy === STREAMED) return streamed(s);
  return [OWN_TREE, SEED_TREE].includes(policy) && !(s.token > 0) ? [] : POOLS[policy];
}
const poolsOf = (s, ...policies) => policies.flatMap((policy) => poolOf(policy, s));

/** The smallest limit that allows an option; 1 allows every text, also where nothing is calibrated. */
function needs(option, kind) {
  if (option.lossless) return 0;
  return option.allowed[kind] ?? 1;
}
const safe = (option, s) => option.lossless || (s.limit > 0 && needs(option, s.kind) <= s.limit);
function broken(option, s) {
  const found = safe(option, s) ? [] : ["risk"];
  if (s.latency && roundSeconds(option.train, s, s.late) > s.latency.seconds) found.push("latency");
  if (s.energy !== null && joules(option.train, s) > s.energy) found.push("energy");
  return found;
}

const keeps = (s) => (option) => !broken(option, s).length;

/** The best allowed option of a pool: of equal ones the one with the best second number; null if there is none. */
function bestAllowed(pool, s, allowed) {
  const bounds = pool.map(({ train }) => atMost(train, s));
  let found = false, most = 0;
  pool.forEach((option, i) => {
    if ((found && bounds[i] <= most) || !allowed(option)) return;
    [found, most] = [true, Math.max(most, value(option.train, s))];
  });
  const least = most * (1 - EQUAL), equal = found ? pool.filter((one, i) => bounds[i] >= least && value(one.train, s) >= least && allowed(one)) : [null];
  return equal.reduce((a, b) => (second(b.train, s) > second(a.train, s) ? b : a));
}
/** The best option of a pool that keeps the limits, else of all. */
const best = (pool, s) => bestAllowed(pool, s, keeps(s)) ?? bestAllowed(pool, s, () => true);
function allowedBy(policy, s) {
  const own = poolOf(policy, s), one = ["U-HLM", "CU-HLM"].includes(policy) && !own.some((option) => !broken(option, s).length);
  return own.filter((option) => option.paper_threshold || (s.limit > 0 && !one));
}

/** The best of some listed options that keep the limits, on the test texts: of equal ones one of ours; null if there is none. */
function bestKept(listed, s) {
  const kept = listed.filter(keeps(s)), most = Math.max(...kept.map((one) => value(one.test, s))) * (1 - EQUAL);
  const rank = (one) => [NO_RIVALS.includes(one.policy), second(one.test, s)];
  return kept.filter((one) => value(one.test, s) >= most).reduce((a, b) => {
    if (!a) return b;
    const [here, there] = [rank(a), rank(b)];
    return there[0] > here[0] || (there[0] === here[0] && there[1] > here[1]) ? b : a;
  }, null);
}

const ONE_USER = "one user", FULL_SERVER = "a full server";
/** Both aims: of every policy the best option, and of all of them the answer. The same as in validation/planning/aims.py. */
function aimsOf(s, optionsOf = allowedBy) {
  const usual = { ...s, objective: ["capacity", "fair"].includes(s.objective) ? "throughput" : s.objective };
  const settings = [usual, { ...s, objective: "capacity" }];
  const listed = POLICIES.map((policy) => [...new Set(settings.flatMap((one) => {
    const own = optionsOf(policy, one), exact = own.filter(({ lossless }) => lossless);
    return [best(own, one), exact.length < own.length && best(exact, one)].filter(Boolean);
  }))]);
  const aims = settings.map((one, n) => {
    const rank = (row) => [safe(row, one), value(row.test, one)], above = ([a, x], [b, y]) => (a === b ? x > y : a);
    const worst = (own) => own.reduce((a, b) => (above(rank(b), rank(a)) ? b : a));
    let rows = listed.filter((own) => own.length).map((own) => bestKept(own, one) ?? worst(own));
    const runs = listed.flat().filter(({ policy }) => !UNRUN.includes(policy)), alone = ({ policy }) => WITHOUT_DEVICE.includes(policy);
    let answer = bestKept(runs, one);
    for (const drop of answer ? ["loss", "device", "loss"] : []) { // without a device a loss may buy less
      const device = !alone(answer) && drop !== "device", lossy = !answer.lossless && drop !== "loss";
      const simpler = bestKept(runs.filter((row) => (alone(row) || device) && (row.lossless || lossy)), one);
      const gain = drop === "loss" ? data.loss_worth : (data.errors[answer.policy] ?? 0);
      if (simpler && value(simpler.test, one) >= value(answer.test, one) / (1 + gain)) answer = simpler;
    }
    rows = rows.map((row) => (row.policy === answer?.policy ? answer : row));
    const others = rows.filter(({ policy }) => !NO_RIVALS.includes(policy) && !UNRUN.includes(policy));
    const rival = bestKept(others, one) ?? worst(others.filter(({ policy }) => WITHOUT_DEVICE.includes(policy)));
    return { name: n ? FULL_SERVER : ONE_USER, s: one, every: listed.flat(), best: answer, rival,
      rows: [rival, ...rows.filter((row) => row !== rival)] };
  });
  const full = aims[1], alone = full.rows.filter(({ policy }) => WITHOUT_DEVICE.includes(policy) && !UNRUN.includes(policy));
  const base = bestOf(full, false) ?? alone.reduce((a, b) => (value(b.test, full.s) > value(a.test, full.s) ? b : a));
  return aims.map((aim) => ({ ...aim, base }));
}

const STREAMING = [STREAM, ...OWN_DRAFTS, KEEPING, OWN_TREE];
/** The answer of a setting with the same limits, as :func:`aimsOf` has it; the options that break the risk are left out once. */
function winners(s, streaming) {
  const policies = POLICIES.filter((policy) => streaming || !STREAMING.includes(policy));
  const pools = [0, 1].map((token) => Object.fromEntries(policies.map((policy) => [policy, poolOf(policy, { ...s, token }).filter((option) => safe(option, s))])));
  return (cell) => {
    const aim = aimsOf(cell, (policy, one) => (policy === STREAMED ? streamed(one) : pools[+(one.token > 0)][policy] ?? []))[+(cell.objective === "capacity")];
    return aim.best && plainest(aim);
  };
}

/** Users of a full server, over those of its best option without a device. */
const usersOf = (c, aim) => load(aim.base.test, aim.s) / Math.max(load(c, aim.s), 1e-12);

function rowOf(option, aim) {
  const s = aim.s, base = aim.rival, policy = option.policy;
  const c = option.test, on = policy === STREAMED, up = on ? (c[UP] * seconds(c, s, s.median)) / (s.draft * c[EXCHANGES]) : c[UP], sent = (number) => (c[EXCHANGES] > 0 && number > 0 ? number : null);
  const breaks = broken(option, s), calibrated = !option.lossless && !breaks.includes("risk") && policy !== CERTIFIED && s.limit < 1, basis = calibrated ? "c" : "m";
  const risk = option.lossless || policy === CERTIFIED ? "p" : basis;
  return { policy, option, label: option.option, breaks, cells: {
    threshold: [option.threshold, basis], k_mean: [sent(option.top_k[0]), "m"], k_p95: [sent(option.top_k[1]), "m"],
    bits: [sent(c[UP] / c[EXCHANGES]), "m"], kilobytes: [(up + c[DOWN]) / 8e3 || null, "m"],
    draft_length: [option.draft_length, "m"], median: [1 / seconds(c, s, s.median), "m"],
    slow: [1 / seconds(c, s, s.slow), "m"], mean: [meanSpeed(c, s), "m"], server: [1e3 * load(c, s), "m"],
    users: [usersOf(c, aim), "m"],
    gain: [meanSpeed(c, s) / meanSpeed(base.test, s), "m"],
    risk: [option.lossless ? 0 : option.loss[s.kind], risk] } };
}

// -------------------------------------------------------------------------------------------------- words

/** Numbers of so many digits; what is below any use is 0. */
function form(digits) {
  const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: digits });
  return { format: (number) => plain.format(Math.abs(number) < 1e-7 ? 0 : number) };
}
const four = form(4), three = form(3), two = form(2), whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const say = (number) => three.format(number);
const percent = (share) => (share < 0.005 ? "under 1%" : share < 1 && share >= 0.995 ? "over 99%" : `${whole.format(100 * share)}%`);
const timesSaid = (times) => (times > 1e6 ? "no limit" : times.toFixed(2));
const threeDigits = (number) => (number < 999.5 ? number.toPrecision(3) : whole.format(number));
const speedOf = (option, s, batch = 1) => `${threeDigits(meanSpeed(option.test, s, batch))} tokens/s`;
const sure = ", in the mean over calibrations";
const calibrated = `calibrated on ${data.prompts.calibrate} prompts${sure}`;
const measured = `measured on ${data.prompts.test} held-out prompts`;

/** A text whose lines do not break within "K = 5". */
const unbroken = (text) => text.replace(/ ([=≤]) (?=\d)/g, "\u00a0$1\u00a0");
const shortName = (policy) => data.names[policy] ?? policy;
const named = (option) => (option.option ? `${shortName(option.policy)}, ${option.option}` : shortName(option.policy));
const withLength = (option) => shortName(option.policy) + (option.option.includes(`K = ${option.draft_length}`) ? ` (K = ${option.draft_length})` : "");
/** A policy that is not ours and as good as the answer, if that is ours; else the answer. */
function plainest(aim) {
  const use = aim.best, worth = (one) => second(one.test, aim.s);
  const same = !NO_RIVALS.includes(use.policy) ? [] : aim.rows.filter((one) => !NO_RIVALS.includes(one.policy) && !broken(one, aim.s).length
    && one.lossless === use.lossless && say(value(one.test, aim.s)) === say(value(use.test, aim.s)) && worth(one) >= worth(use) - AS_GOOD * Math.abs(worth(use)));
  return same.length ? same.reduce((a, b) => (worth(b) > worth(a) ? b : a)) : use;
}

/** The number that decides an aim, with its unit. */
function numberSaid(aim, option) {
  const worth = value(option.test, aim.s);
  if (aim.name === FULL_SERVER) return worth < ENDLESS ? `${threeDigits(1e3 / worth)} ms of the server for a token` : "no time of the server";
  if (aim.s.objective === "cost") return `a price of ${say(1 / worth)} for a token`;
  return `${threeDigits(worth)} tokens/s${aim.s.objective === "goodput" ? " in time" : ""}`;
}

function unmet(s) {
  const pool = POLICIES.flatMap((policy) => allowedBy(policy, s)).filter((option) => safe(option, s));
  const round = s.latency ? Math.min(...pool.map((option) => roundSeconds(option.train, s, s.late))) : 0;
  if (round > s.latency?.seconds) return `The latency limit (${say(1e3 * s.latency.seconds)} ms) cannot be kept: the shortest round takes ${say(1e3 * round)} ms.`;
  return "No policy keeps all limits together.";
}

function guarantee(option, s) {
  const engine = [...OWN_DRAFTS, OWN_TREE].includes(option.policy) || (data.counted && option.draft_length > 0);
  const tried = option.policy === OWN_GREEDY ? data.greedy_tried : data.tried;
  if (option.lossless && engine) return ["Lossless, if", `the engine's verification, such as rejection sampling, has no fault (proved): hlm audit tests it${tried && ` (${tried})`}.`];
  if (option.lossless) return ["Lossless", "Every text has exactly the target model's law: proved."];
  if (needs(option, s.kind) >= 1 || s.limit >= 1) return ["No limit", `The limit allows any text; its loss is ${two.format(option.loss[s.kind])}, ${measured}.`];
  if (option.policy === CERTIFIED) return [`TV ≤ ${say(needs(option, s.kind))}`, `The law of ${s.kind === "text" ? "a text as long as these" : "each token, given those before it,"} is within this of the target model's: proved.`];
  const what = s.kind === "text" ? "mean total variation of a new text from the target model's" : "mean one-step risk of a new text's tokens";
  return [`${s.kind === "text" ? "TV" : "Risk"} ≤ ${say(s.limit)}`, `The ${what}: ${calibrated}. Its bound on the test prompts is ${two.format(option.loss[s.kind])}.`];
}

/** The command that makes this plan, with intervals. */
function command(s) {
  const short = (x) => +x.toPrecision(12), snr = s.fading === "none" ? "" : ` --snr ${short(10 * Math.log10(s.snr))}dB`;
  const link = data.recorded ? "" : ` --rate ${short(s.rate / 1e6)}M --fading ${s.fading}${snr}`;
  const prices = s.objective === "cost" ? ` --server-price ${asked.server_price} --time-price ${asked.time_price}` : "";
  const aim = s.objective === "throughput" ? "" : ` --objective ${s.objective}${prices}`;
  const passes = asked.passes ? "" : ` --verify-time ${short(1e3 * s.verify)}ms --verify-token-time ${short(1e3 * s.token)}ms`;
  return `${data.command}${link} --rtt ${short(1e3 * s.roundTrip)}ms --draft-time ${short(1e3 * s.draft)}ms${passes}` +
    `${s.ownDraft === null ? "" : ` --server-draft-time ${short(1e3 * s.ownDraft)}ms`} ` +
    `--server-batch ${s.batch} --risk ${s.kind}=${short(s.limit)}${aim}`;
}

// ------------------------------------------------------------------------------------------------- pictures

function put(parent, tag, attributes, text) {
  const made = document.createElementNS(parent.namespaceURI, tag);
  for (const [name, one] of Object.entries(attributes)) made.setAttribute(name, one);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
}

/** An empty picture as wide as its place, with axes; x and y turn numbers into pixels. */
function canvas(id, xs, ys, names) {
  const svg = byId(id), width = Math.max(svg.parentElement.clientWidth, 260), height = 340;
  const [left, right, top, bottom] = [46, width - 22, 30, height - 48];
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  const x = (at) => left + (right - left) * xs.share(at), y = (at) => bottom - (bottom - top) * ys.share(at);
  const axes = () => {
    for (const at of xs.ticks) {
      put(svg, "line", { x1: x(at), x2: x(at), y1: bottom, y2: bottom + 5, class: "axis" });
      put(svg, "text", { x: x(at), y: bottom + 20, "text-anchor": "middle" }, say(at));
    }
    for (const at of ys.ticks) {
      put(svg, "line", { x1: left - 5, x2: left, y1: y(at), y2: y(at), class: "axis" });
      put(svg, "text", { x: left - 9, y: y(at) + 5, "text-anchor": "end" }, say(at));
    }
    put(svg, "path", { d: `M${left},${top}V${bottom}H${right}`, class: "axis" });
    put(svg, "text", { x: right, y: bottom + 41, "text-anchor": "end" }, names[0]);
    put(svg, "text", { x: 4, y: 18 }, names[1]);
  };
  return { svg, x, y, axes, left, right, top, bottom };
}
function linear(high) {
  const step = [1, 2, 5, 10].map((one) => one * 10 ** Math.floor(Math.log10(high / 4))).find((one) => high / one <= 5.5);
  const ticks = Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, i) => +(i * step).toPrecision(6));
  return { share: (at) => Math.min(at / high, 1), ticks, at: (share) => high * share };
}
function logarithmic(low, high) {
  const ticks = [];
  for (let at = 10 ** Math.ceil(Math.log10(low) - 1e-9); at <= high * 1.001; at *= 10) ticks.push(+at.toPrecision(3));
  return { share: (at) => Math.min(Math.max(Math.log(at / low) / Math.log(high / low), 0), 1), ticks,
    at: (share) => low * (high / low) ** share };
}

function legend(id, entries) {
  const list = byId(id);
  list.replaceChildren();
  for (const [kind, text] of entries) put(put(list, "li", {}), "span", { class: kind && `swatch ${kind}` }).after(` ${unbroken(text)}`);
}

const KINDS = [NO_RIVALS, [...OWN_DRAFTS, KEEPING, OWN_TREE], [SERVER, STREAM], [DEVICE], PAPERS]; // of one colour each
const ROLES = ["ours", "server that drafts", "server without drafts", DEVICE, "other devices"];
const kindOf = (policy) => KINDS.findIndex((policies) => policies.includes(policy));
const WINS = { throughput: "is fastest for one user", capacity: "takes least of a full server", cost: "is cheapest", goodput: "brings most tokens in time" };

/** Every policy that keeps the limits, at its best options for one user and for a full server, as [option, users, speed]. */
function pointsOf(aims) {
  const kept = aims.flatMap(({ every, rows, s }) => (s.limit > 0 ? every : rows).filter((one) => !UNRUN.includes(one.policy) && !broken(one, s).length));
  return [...new Set(kept)].map((one) => [one, usersOf(one.test, aims[1]), meanSpeed(one.test, aims[0].s)]);
}

/** Who wins, or what a risk is worth, and the speed of one user against the users of a full server. */
function drawQuality(aims, aim, used) {
  const { s, best, every } = aim, exact = bestKept(every.filter(({ policy, lossless }) => lossless && !UNRUN.includes(policy)), s);
  const gain = exact && best && value(best.test, s) / value(exact.test, s) - 1;
  const risk = !exact ? "Without loss the limits cannot be kept" : `The risk is worth ${best.lossless ? `less than ${percent(data.loss_worth)}` : percent(gain)} for ${aim.name}`;
  byId("quality-title").textContent = !used ? "No policy keeps the limits" : s.limit > 0 ? risk : `Without loss, ${shortName(used.policy)} ${WINS[s.objective]}`;
  const points = pointsOf(aims), most = [1, 2].map((n) => Math.max(...points.map((point) => point[n]).filter((number) => number < ENDLESS)));
  const place = canvas("quality", linear(1.1 * most[0]), linear(1.15 * most[1]), ["users of a full server, ×", `${UNITS.throughput}, of one user`]), { svg, x, y, axes } = place;
  axes();
  const plan = points.find(([one]) => one === used), lossy = points.some(([one]) => !one.lossless);
  for (const [one, users, speed] of points.toReversed()) { // of equal ones the one that is named on top
    const dot = put(svg, "circle", { cx: x(users), cy: y(speed), r: 6, class: `area${kindOf(one.policy)} ${one.lossless ? "area axis" : "lossy"}` });
    put(dot, "title", {}, `${named(one)}: ${say(speed)} tokens/s, users × ${timesSaid(users)}`);
  }
  if (plan) put(svg, "circle", { cx: x(plan[1]), cy: y(plan[2]), r: 9, class: "ring" });
  const roles = ROLES.map((role, kind) => [`area${kind}`, role]).filter((_, kind) => points.some(([one]) => kindOf(one.policy) === kind));
  const edge = points.some(([, users]) => users >= ENDLESS) && ["", "right edge: no limit of users"];
  const unnamed = nameFrontier(points, plan, place);
  legend("lines", [...roles, edge, lossy && ["hollow", "loses something"], plan && ["ring", "the plan"], unnamed.length && ["", `unnamed for lack of space, from the left: ${unnamed.join("; ")}`]].filter(Boolean));
}

/** Name the plan and the points that no other beats in both numbers, where a name hides no point and no name; return the
    names without a place. */
function nameFrontier(points, plan, { svg, x, y, left, right, bottom }) {
  const beaten = ([, users, speed]) => points.some(([, more, faster]) => more >= users && faster >= speed && (more > users * (1 + EQUAL) || faster > speed * (1 + EQUAL)));
  const frontier = points.filter((point) => !beaten(point)).sort((a, b) => a[1] - b[1]), listed = [plan, frontier[0], frontier.at(-1), ...frontier].filter(Boolean);
  const taken = points.map(([, users, speed]) => [x(users) - 10, x(users) + 10, y(speed) - 10, y(speed) + 10]), done = [], unnamed = [];
  for (const [one, users, speed] of new Set(listed)) {
    const at = [x(users), y(speed)], twice = frontier.some(([other]) => other !== one && other.policy === one.policy);
    if (done.some(([across, up]) => Math.hypot(across - at[0], up - at[1]) < 6)) continue;
    const name = twice ? withLength(one) : shortName(one.policy), text = put(svg, "text", { "text-anchor": "middle", class: "label" }, name), half = text.getComputedTextLength() / 2 + 2;
    const inside = (across) => Math.max(Math.min(across, right + 20 - half), left + half);
    const beyond = (heights) => heights.flatMap((up) => [0, -0.5, 0.5, -0.9, 0.9].map((shift) => [inside(at[0] + shift * half), at[1] + up]));
    const boxOf = ([across, up]) => [across - half, across + half, up - 13, up + 5];
    const beside = [at[0] + half + 11, at[0] - half - 11].map((across) => [across, at[1] + 5]);
    const spots = [...beyond([-16, 27]), ...beside, ...beyond([-24, 35, -40, 51])];
    const spot = spots.find((place) => {
      const [from, to, high, low] = boxOf(place);
      return from >= left && to <= right + 20 && high >= 22 && low <= bottom && taken.every((box) => to <= box[0] || from >= box[1] || low <= box[2] || high >= box[3]);
    });
    done.push(at);
    if (!spot) { text.remove(); unnamed.push([at[0], name]); continue; }
    text.setAttribute("x", spot[0]);
    text.setAttribute("y", spot[1]);
    const up = spot[1] < at[1], far = Math.abs(spot[1] - at[1]) > 36; // a line leads to a name that is far
    if (far) svg.querySelector(".label").before(put(svg, "line", { x1: at[0], y1: at[1] + (up ? -7 : 7), x2: at[0], y2: spot[1] + (up ? 4 : -13), class: "axis" }));
    taken.push(boxOf(spot));
  }
  return unnamed.sort((a, b) => a[0] - b[0]).map(([, name]) => name);
}

const FINE = 30, COARSE = 5; // cells of a map's row: fewer where only their areas matter

/** The winners of a map's cells, and of each its runs and number of cells, the largest first. */
function areasOf(s, names, scales, fine, winner) {
  const [columns, rows] = scales.map((scale, n) => Array.from({ length: fine }, (_, i) => fromShown(names[n], scale.at((i + 0.5) / fine))));
  const areas = {}, cells = rows.map((row) => columns.map((column) => withLink({ ...s, [names[0]]: column, [names[1]]: row })));
  const grid = cells.map((row) => row.map((cell) => winner(cell)?.policy));
  grid.forEach((row, j) => row.forEach((policy, i) => {
    if (!policy) return;
    const area = areas[policy] ??= { policy, kind: kindOf(policy), runs: [], cells: 0 }, run = area.runs.at(-1);
    area.cells++;
    if (run?.j === j && row[i - 1] === policy) run.length++; else area.runs.push({ i, j, length: 1 });
  }));
  return [grid, Object.values(areas).sort((a, b) => b.cells - a.cells)];
}

/** The axes of a map, and a sentence on them: two numbers that change the answer, whose areas have the largest entropy;
    where a pair has fewer, the last of the pairs, which has the texts in a pass. */
function movingAxes(s, winner) {
  const names = Object.keys(AXES), moving = new Set();
  const pairs = names.flatMap((name, n) => names.slice(n + 1).map((other) => [name, other])).map((pair) => {
    const [grid, areas] = areasOf(s, pair, pair.map(scaleOf), COARSE, winner);
    const moves = [(row) => row[0], (row, i) => grid[0][i]].map((first) => grid.some((row) => row.some((one, i) => one !== first(row, i))));
    pair.filter((_, n) => moves[n]).forEach((name) => moving.add(name));
    return { pair, rank: [moves.filter(Boolean).length, areas.reduce((sum, { cells }) => sum - cells * Math.log(cells / COARSE ** 2), 0)] };
  });
  const best = pairs.reduce((a, b) => (b.rank[0] > a.rank[0] || (b.rank[0] === a.rank[0] && b.rank[1] >= a.rank[1] - EQUAL) ? b : a));
  const [one] = [...moving].map((name) => AXES[name].split(",")[0]);
  const said = best.rank[0] === 2 ? "At first the axes are those that change the answer most."
    : one ? `At first, of all the numbers, only the ${one.replace(/^each/, "time that each")} was found to change the answer.` : "At first no number was found to change the answer.";
  return [best.pair, said];
}

/** Where each policy wins: the best for the aim that keeps the limits, over two numbers of the setting. */
function drawMap(s) {
  const winner = winners(s, byId("stream").checked), here = winner(s);
  if (!axes) [axes, byId("moving").textContent] = movingAxes(s, winner);
  ["across", "up"].forEach((id, n) => { byId(id).value = axes[n]; });
  const scales = axes.map(scaleOf), { svg, x, y, axes: drawAxes, left, right, top, bottom } = canvas("map", ...scales, axes.map((name) => AXES[name]));
  const wide = (right - left) / FINE, high = (bottom - top) / FINE, at = { x: x(shown(axes[0])), y: y(shown(axes[1])) };
  const [grid, areas] = areasOf(s, axes, scales, FINE, winner), tint = ({ policy, kind }) =>
    `area${kind} shade${KINDS[kind].filter((one) => areas.some((area) => area.policy === one)).indexOf(policy)}`;
  const d = ({ i, j, length }) => `M${(left + i * wide).toFixed(1)},${(bottom - j * high).toFixed(1)}v${(-high - 0.4).toFixed(1)}h${(length * wide + 0.4).toFixed(1)}V${(bottom - j * high).toFixed(1)}z`;
  for (const area of areas) put(svg, "path", { d: area.runs.map(d).join(""), class: `area ${tint(area)}` });
  const edge = (one, other, line, i, j) => (one === (other ?? one) ? "" : `M${left + (i + 1) * wide},${bottom - (j + 1) * high}${line}`);
  put(svg, "path", { d: `M0,0${grid.map((row, j) => row.map((one, i) => edge(one, row[i + 1], `v${high}`, i, j) + edge(one, grid[j + 1]?.[i], `h${-wide}`, i, j)).join("")).join("")}`, class: "axis" });
  drawAxes();
  put(svg, "path", { d: `M${at.x},${top}V${bottom}M${left},${at.y}H${right}`, class: "here" });
  for (const { policy, kind, runs } of areas) {
    const name = shortName(policy), rows = runs.filter(({ j, length }) => runs.length > 2 && length * wide > 9 * name.length && Math.abs(at.y - bottom + (j + 0.5) * high) > 12);
    for (const { i, j, length } of rows.slice(rows.length >> 1).slice(0, 1)) put(svg, "text", { x: left + (i + length / 2) * wide, y: bottom - (j + 0.5) * high + 5, "text-anchor": "middle", class: `on area${kind}` }, name);
  }
  put(svg, "circle", { cx: at.x, cy: at.y, r: 7, class: "point" });
  legend("legend", [...areas.map((area) => [tint(area), shortName(area.policy)]), here && ["ring", `here: ${shortName(here.policy)}`]].filter(Boolean));
}

// ------------------------------------------------------------------------------------------------- the page

const NONE = "–";
/** Of the columns: the first on a wide screen, where it differs; and what the first column is for some aims. */
const WIDE = { mean: "tokens/s of one user (m)", users: "users, ×, of a full server (m)", bits: "bits up (m)" };
const DECIDES = { cost: "price of a token (m)", goodput: "tokens/s in time (m)" };
const HEADS = { mean: "tokens/s", users: "users, ×", risk: "risk", bits: "bits up", draft_length: "K", threshold: "threshold", k_mean: "k mean", k_p95: "k 95%",
  kilobytes: "kB/token", median: "tok/s 50%", slow: "tok/s 95%", server: "server ms", gain: "gain" };
const start = { rate: data.recorded ? RECORDED : asked.rate_bps, fading: asked.fading, snr: asked.snr, roundTrip: asked.round_trip_s - data.exchange_s,
  draft: asked.draft_s, verify: asked.verify_s, ownDraft: data.bases.ownDraft ? null : asked.server_draft_s ?? asked.draft_s, token: asked.verify_token_s, batch: asked.server_batch, objective: asked.objective, kind: asked.risk.kind, limit: asked.risk.limit, latency: asked.latency, energy: asked.energy_j };
let state = { ...start };
const STEPS = 300; // of a logarithmic slider
/** Of each slider: units of the state in one unit of the page, ends, whether it is logarithmic, whether 0 is allowed. */
const CONTROLS = {
  rate: { unit: 1e6, low: 0.1, high: 1000, log: true }, roundTrip: { unit: 1e-3, low: 1, high: 500, log: true, zero: true },
  snr: { low: -10, high: 30, step: 0.5, to: (dB) => 10 ** (dB / 10), from: (snr) => 10 * Math.log10(snr), any: true },
  limit: { unit: 1, low: 0, high: 1, step: 0.01, zero: true, most: 1 },
  draft: { unit: 1e-3, low: 0.5, high: 200, log: true }, verify: { unit: 1e-3, low: 0.5, high: 500, log: true },
  ownDraft: { unit: 1e-3, low: 0.1, high: 200, log: true },
  token: { unit: 1e-3, low: 0, high: 20, step: 0.1, zero: true }, batch: { unit: 1, low: 1, high: 256, log: true, whole: true } };
const CHOICES = ["fading", "kind", "objective"];
/** Of the numbers that a map's axis can have. */
const AXES = { rate: "rate, Mbit/s", roundTrip: "round trip, ms", draft: "device's draft, ms",
  ownDraft: "server's draft, ms", ...(asked.passes ? {} : { verify: "target pass, ms", token: "each token adds, ms" }), batch: "texts in a pass" };
let axes = null; // null: those that move the answer

const scaleOf = (name) => { const { low, high, log } = CONTROLS[name], now = shown(name); return log ? logarithmic(Math.min(low, now || low), Math.max(high, now)) : linear(Math.max(high, now)); };
const fromShown = (name, number) => { const { unit, to, whole } = CONTROLS[name]; return to ? to(number) : (whole ? Math.round(number) : number) * unit; };
const shown = (name) => { const { unit, from } = CONTROLS[name]; const now = name === "ownDraft" ? ownDraftOf(state) : state[name]; return +(from ? from(now) : now / unit).toPrecision(10); };
function write(name, from) {
  const { low, high, log } = CONTROLS[name], number = shown(name), slider = byId(`${name}-slider`);
  if (from !== "number") byId(name).value = +number.toPrecision(6);
  if (from !== "slider") slider.value = log ? STEPS * Math.log(Math.max(number, low) / low) / Math.log(high / low) : number;
  slider.setAttribute("aria-valuetext", `${+number.toPrecision(3)} ${byId(name).dataset.unit}`);
}

/** Take a number; return whether it is one that the setting allows. */
function take(name, number) {
  const { zero, most, any, whole } = CONTROLS[name];
  const right = Number.isFinite(number) && (any || number > 0 || (zero && number === 0)) && number <= (most ?? Infinity) && !(whole && number % 1);
  if (right) state[name] = fromShown(name, number);
  return right;
}

function listen(name) {
  const { low, high, log, step } = CONTROLS[name], field = byId(name), slider = byId(`${name}-slider`);
  Object.assign(slider, log ? { min: 0, max: STEPS, step: 1 } : { min: low, max: high, step });
  const checked = (right) => { field.setAttribute("aria-invalid", !right); byId(`${name}-wrong`).hidden = right; };
  field.addEventListener("input", () => {
    const right = field.value.trim() !== "" && take(name, Number(field.value));
    checked(right);
    if (right) { write(name, "number"); later(); }
  });
  slider.addEventListener("input", () => {
    const at = Number(slider.value);
    const number = log ? +(low * (high / low) ** (at / STEPS)).toPrecision(3) : at;
    checked(take(name, CONTROLS[name].whole ? Math.round(number) : number));
    write(name, "slider");
    later();
  });
}

function drawTable(rows, objective) {
  const body = byId("rows"), head = byId("heads");
  body.replaceChildren();
  head.replaceChildren();
  const own = DECIDES[objective], heads = Object.entries({ ...HEADS, ...(own && { mean: own }) });
  put(head, "th", { scope: "col" }, "policy");
  for (const [key, name] of heads) put(head, "th", { scope: "col", "data-key": key }, name === own ? own : WIDE[key] ?? name);
  byId("calibrated").hidden = !rows.some(({ cells }) => cells.risk[1] === "c" && two.format(cells.risk[0]) !== "1");
  for (const row of rows) {
    const kinds = [row.plan && "ours", row.breaks.length && "breaks", UNRUN.includes(row.policy) && "unrun"].filter(Boolean);
    const line = put(body, "tr", { role: "row", class: kinds.join(" ") });
    const breaks = row.breaks.length ? ` (over ${row.breaks.map((limit) => `--${limit}`).join(", ")})` : "";
    const name = put(line, "th", { scope: "row", role: "rowheader", "data-policy": row.policy }, shortName(row.policy) + breaks);
    put(name, "span", { class: "option" }, unbroken(row.label));
    for (const [key, head] of heads) {
      const [number, basis] = own && key === "mean" ? [objective === "cost" ? 1 / row.number : row.number] : row.cells[key], cell = put(line, "td", { role: "cell", "data-label": head, "data-key": key });
      if (number === null) { cell.textContent = NONE; continue; }
      if (key === "users") cell.textContent = timesSaid(number);
      else cell.textContent = key === "bits" ? whole.format(number) : (key.startsWith("k_") ? four : ["draft_length", "risk"].includes(key) ? two : key === "mean" ? { format: threeDigits } : three).format(number);
      cell.dataset.value = number;
      if (key === "risk" && basis !== "p" && cell.textContent !== "1") cell.textContent += ` (${basis})`;
    }
  }
}

/** The best option of an aim with a device or without. */
const bestOf = (aim, device) => bestKept(aim.every.filter(({ policy }) => !UNRUN.includes(policy) && WITHOUT_DEVICE.includes(policy) !== device), aim.s);

const needsSaid = ({ policy }) => `it needs ${[SERVER, STREAM].includes(policy) ? "no draft model" : `the draft model on the ${WITHOUT_DEVICE.includes(policy) ? "server" : "device"}`}`;

/** What the command adds in brackets for a server's own drafts: the flags of vLLM, and here the lengths with about its speed. */
const lengthsOf = (policy) => POOLS[policy].filter(({ option }) => /^K = \d+$/.test(option)).sort((a, b) => a.draft_length - b.draft_length);
function told(use, aim) {
  const s = aim.s, greedy = bestKept(aim.every.filter(({ policy }) => policy === OWN_GREEDY), s);
  const sampled = data.sampled && use.policy === COLOCATED ? `, draft_sample_method = probabilistic${greedy ? `; greedy, its default: ${numberSaid(aim, greedy)}` : ""}` : "";
  const flags = data.vllm ? `vLLM: num_speculative_tokens = ${use.draft_length}${sampled}; ` : "";
  const speed = (one) => meanSpeed(one.test, s), near = (one) => speed(one) >= speed(use) * (1 - AS_GOOD);
  const lengths = lengthsOf(use.policy), alike = lengths.slice(lengths.findIndex(near), lengths.findLastIndex(near) + 1), speeds = alike.map(speed);
  const most = 0.5 * Math.floor(200 * (Math.max(...speeds) / Math.min(...speeds) - 1) + 1); // %
  return alike.length < 2 || s.objective !== "throughput" ? flags : `${flags}K = ${alike[0].draft_length} to ${alike.at(-1).draft_length} differ by less than ${most}%; `;
}

/** How much longer than over one token a pass over K + 1 may take until one of others is as quick; null: never quicker, or
    passes are known. The same as validation/planning/token_time.py. */
function longestPass(s, option, others) {
  if (asked.passes || s.token > 0 || !others.length) return null;
  const line = ({ test }) => [served(test, s), s.verify * (test[VERIFIED] - test[PASSES])], [seconds, wider] = line(option);
  const crossings = others.map(line).filter(([, narrow]) => wider > narrow).map(([other, narrow]) => (other - seconds) / (wider - narrow));
  const token = Math.min(...crossings);
  return token > 0 && token < Infinity ? 1 + option.draft_length * token : null;
}

/** Whether what the command told of a server's own drafts still holds: the same option, and what its times rest on.
    A downlink takes as long for a token of every length, so of counts it decides nothing. */
function holds(aim, use) {
  begun ??= withLink(start);
  const rests = ["objective", "verify", "token", "serverDraft", "batch", ...(data.counted ? [] : ["down"])];
  if (aim.s.latency || rests.some((name) => aim.s[name] !== begun[name])) return false;
  first ??= plainest(aimsOf(begun)[+(begun.objective === "capacity")]);
  return use === first;
}
let begun = null, first = null;

/** The strongest rival, as validation/planning/answer.py has it, and beside a server the best with a device. */
function rivalsOf(aim, use) {
  const own = !WITHOUT_DEVICE.includes(use.policy), kind = OWN_DRAFTS.includes(use.policy) ? OWN_DRAFTS : [use.policy];
  const rival = use === aim.rival || use !== aim.best || (!own && !WITHOUT_DEVICE.includes(aim.rival.policy)) ? bestOf(aim, !own) : aim.rival;
  const kept = (allowed) => bestKept(aim.every.filter((one) => !UNRUN.includes(one.policy) && allowed(one)), aim.s);
  const server = own ? null : kept(({ policy }) => WITHOUT_DEVICE.includes(policy) && !kind.includes(policy));
  if (!server || (rival && value(rival.test, aim.s) >= value(server.test, aim.s))) return [rival, null];
  const exact = use.lossless && rival && !rival.lossless && kept((one) => one.lossless && !WITHOUT_DEVICE.includes(one.policy));
  return [server, exact || rival];
}

/** The first lines: the answer to the aim, which is also that of the pictures' rings and the command. */
function card(aim) {
  const s = aim.s, ids = ["use", "speed", "sure", "rival"];
  const title = { capacity: "Server time", cost: "Cost" }[s.objective] ?? "Speed";
  if (!aim.best) return { title, use: "No policy", speed: "–", sure: "Nothing", rival: "–", ...Object.fromEntries(ids.map((id) => [`${id}-how`, ""])) };
  const use = plainest(aim), [sure, how] = guarantee(use, s);
  const [rival, device] = rivalsOf(aim, use);
  const ahead = (one) => (data.errors[one.policy] && !data.errors[use.policy] && value(one.test, s) > value(use.test, s) ? `, less than plans of devices were too fast (up to ${percent(data.errors[one.policy])}): not chosen` : "");
  const ratio = (one) => `${numberSaid(aim, one)}, ${(value(one.test, s) / value(use.test, s)).toFixed(2)} of the answer's${ahead(one)}`;
  const against = rival ? [`${ratio(rival)}; ${needsSaid(rival)}.`] : [];
  if (device) against.push(`Best with a device: ${withLength(device)}: ${ratio(device)}.`);
  const usual = s.objective === "throughput", given = Object.keys(start).every((key) => s[key] === start[key]);
  const same = given || (OWN_DRAFTS.includes(use.policy) && holds(aim, use)), interval = data.interval && (given || (same && s.down === begun.down)) ? `${data.interval}; ` : "", late = say(1 / seconds(use.test, s, s.slow)), slow = late === say(meanSpeed(use.test, s)) ? "" : `${late} or more in 95% of the time; `;
  const varies = usual && use.draft_length > 0 && (!data.counted || OWN_DRAFTS.includes(use.policy)); // the command has an interval
  const prices = s.objective === "cost" ? `${asked.server_price} a second of the server, ${asked.time_price} of waiting; ` : "";
  const wide = usual && !asked.passes && !(s.token > 0) && use.policy !== STREAMED && use.draft_length > 0;
  const longest = wide && OWN_DRAFTS.includes(use.policy) && longestPass(s, use, POOLS[STREAM]);
  const drawn = s.ownDraft === null && use.test[SERVER_DRAFTS] > 0 ? `assumes a draft on the server of ${say(1e3 * s.serverDraft)} ms; ` : "";
  const round = data.tokens?.[use.draft_length], basis = `${data.basis}${round ? `, ${round[0].toFixed(2)} tokens each (${round[1].toFixed(2)} to ${round[2].toFixed(2)}),` : ""} × these times${round ? "; K was chosen on the same counts" : ""}`;
  const flat = wide ? `assumes a pass over ${Math.round(use.draft_length + 1)} tokens as long as over one${longest ? `; from ${say(1e3 * s.verify * longest)} ms plain decoding is as fast` : ""}; ` : "";
  const alone = usual ? "" : `a single user gets ${speedOf(use, s)}; `;
  const lines = [`${same && data.told ? `${data.told}; ` : OWN_DRAFTS.includes(use.policy) && lengthsOf(use.policy).includes(use) ? told(use, aim) : ""}${needsSaid(use)}${use === aim.best ? "" : "; ours is as good"}`, `${drawn}${flat}${interval}${prices}${alone}${slow}${basis}${given || interval || !varies ? "" : "; for an interval run the command below"}`, how, against.join(" ")];
  return { title, use: named(use), speed: usual ? `${wide ? "up to " : ""}${speedOf(use, s)}` : numberSaid(aim, use), sure, rival: rival ? withLength(rival) : "none",
    ...Object.fromEntries(ids.map((id, i) => [`${id}-how`, lines[i]])) };
}

/** What a full server should use and with how many users, in the words of validation/planning/sentences.py. */
function crowd({ s, base, best, rows, every }) {
  const runs = (options) => bestKept(options.filter(({ policy }) => !UNRUN.includes(policy)), s), lossless = every.filter((one) => one.lossless);
  const times = (one) => timesSaid(usersOf(one.test, { s, base })), own = ({ policy }) => NO_RIVALS.includes(policy), alone = ({ policy }) => WITHOUT_DEVICE.includes(policy);
  const worth = (one) => second(one.test, s) * (one.policy === DEVICE ? 1 + EQUAL : 1);
  const most = (option, listed) => {
    const equal = listed.filter((one) => !broken(one, s).length && times(one) === times(option)), rivals = equal.filter((one) => !own(one));
    if (equal.includes(base)) return [base, withLength(base)];
    const ours = equal.filter(own), first = [...rivals.sort((a, b) => worth(b) - worth(a)), ...ours][0];
    return [first, withLength(first) + (rivals.length && ours.length ? " or ours" : "")];
  };
  const inMemory = (one) => { // a server whose passes have all texts that the devices keep in memory
    const held = value(one.test, s) / meanSpeed(one.test, s, s.batch), kept = every.filter((row) => alone(row) && !UNRUN.includes(row.policy) && !broken(row, s).length);
    if (times(one) === timesSaid(Infinity)) return "";
    const most = Math.max(...kept.map(({ test }) => 1 / load(test, { ...s, batch: Math.round(held) })));
    return `, with ${whole.format(held)} texts in memory. As many in each pass, without devices, carry ${timesSaid(most / value(base.test, s))} times${most > value(one.test, s) ? ": widen passes first" : ""}`;
  };
  const each = (one) => `. Each of its users gets at most ${speedOf(one, s, s.batch)}${alone(one) ? "" : ` (${threeDigits(meanSpeed(base.test, s, s.batch))} without devices)${inMemory(one)}`}`;
  const [first, names] = most(best, rows), bounded = times(best) !== timesSaid(Infinity), erred = (one) => `plans of devices were up to ${percent(data.errors[one.policy])} too fast`;
  const many = bounded ? `${times(best)} times (${erred(best)}) the users of ${withLength(base)}` : "no limit of users", texts = `with ${s.batch === 1 ? "1 text" : `${s.batch} texts`} a pass (--server-batch)`;
  const servers = poolsOf(s, ...WITHOUT_DEVICE.filter((policy) => !UNRUN.includes(policy))).filter((one) => !broken(one, s).length);
  const until = !alone(best) && bounded && longestPass(s, best, servers);
  const said = [until ? `Full server: ${texts} ${names} may carry ${many}, if a pass over ${best.draft_length + 1} tokens of each text takes no longer than over one. If it takes ${until.toFixed(2)} times as long, no more: give --passes`
    : `Full server: ${texts} use ${names}${first === base ? "" : `: ${many}`}${each(first)}`];
  const device = runs(every.filter((one) => !alone(one))), exact = best.lossless ? null : runs(lossless);
  if (alone(best) && device && value(device.test, s) > value(best.test, s)) said.push(`With devices: ${most(device, every)[1]}: ${times(device)} times as many users, less than plans of devices were too fast (up to ${percent(data.errors[device.policy])})`);
  if (exact) { const [one, name] = most(exact, lossless); said.push(`Without loss: ${name}: ${times(exact)} times${each(one)}`); }
  if (!alone(best) && best.policy !== DEVICE) said.push("vLLM cannot do so: its plugin keeps each text in all passes, which wait for drafts");
  return `${said.join(". ")}.`;
}

function render() {
  const s = withLink(state), aims = aimsOf(s), aim = aims[s.objective === "capacity" ? 1 : 0];
  const used = aim.best && plainest(aim);
  const rows = aim.rows.map((option) => ({ ...rowOf(option, aim), plan: option === used, number: value(option.test, aim.s) }));
  const last = (row) => 2 * !!row.breaks.length + UNRUN.includes(row.policy);
  rows.sort((a, b) => last(a) - last(b) || b.number - a.number);
  const plan = rows.find((row) => row.plan);
  const lines = card(aim);
  const least = Math.min(...POOLS[OURS].filter((option) => !option.lossless).map((option) => needs(option, s.kind)));
  const notes = plan ? [] : [unmet(s)];
  if (s.limit > 0 && least > s.limit && least < 1) notes.push(`No token may be skipped at a risk of ${say(s.limit)}: the smallest that allows it is ${say(least)}.`);
  const speeds = (policy) => lengthsOf(policy).map((one) => `K = ${one.draft_length}:\u00a0${say(value(one.test, s))}`).join(", ");
  lines.lengths = OWN_DRAFTS.filter(speeds).map((policy) => `${policy[0].toUpperCase()}${policy.slice(1)}, ${UNITS[s.objective]}: ${speeds(policy)}.`).join(" ");
  if (state.ownDraft === null) write("ownDraft");
  for (const name of Object.keys(CONTROLS)) lines[`${name}-basis`] = state[name] === start[name] && data.bases[name] ? `; ${data.bases[name]}` : "";
  lines["rate-basis"] += `; down ${say(s.down / 1e6)}, ${asked.down_bps ? "given" : "by default the median rate"}`;
  lines.full = aims[1].best && aim !== aims[1] ? crowd(aims[1]) : "";
  lines.note = notes.join(" ");
  lines.brief = `${lines.speed} · ${lines.sure.replace(/, if$/, " if …")} · ${lines.use}`;
  for (const [id, text] of Object.entries(lines)) byId(id).textContent = unbroken(text);
  byId("command").replaceChildren();
  for (const word of command(s).split(/(?<= )(?=--)/)) put(byId("command"), "span", {}, word);
  byId("snr").disabled = byId("snr-slider").disabled = s.fading === "none";
  drawTable(rows, s.objective);
  drawQuality(aims, aim, used);
  if (!byId("map").querySelector(".point")) put(canvas("map", linear(1), linear(1), []).svg, "text", { x: 46, y: 170 }, "computing …");
  clearTimeout(soon);
  soon = setTimeout(() => drawMap(s), 60); // the slowest part waits until the sliders rest
}

let waiting = false, soon = 0;
function later() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; render(); });
}

function reset() {
  state = { ...start };
  for (const name of Object.keys(CONTROLS)) { write(name); byId(name).setAttribute("aria-invalid", false); byId(`${name}-wrong`).hidden = true; }
  for (const name of CHOICES) byId(name).value = state[name];
  axes = null;
  later();
}
Object.keys(CONTROLS).forEach(listen);
for (const name of CHOICES) byId(name).addEventListener("change", () => { state[name] = byId(name).value; if (name === "objective") axes = null; later(); });
byId("stream").addEventListener("change", () => { axes = null; later(); });
["across", "up"].forEach((id, n) => {
  for (const [name, text] of Object.entries(AXES)) put(byId(id), "option", { value: name }, text.split(",")[0]);
  byId(id).addEventListener("change", () => {
    const taken = byId(id).value;
    axes = taken === axes[1 - n] ? [axes[1], axes[0]] : axes.with(n, taken);
    later();
  });
});
byId("whole").addEventListener("change", () => byId("rows").parentElement.classList.toggle("whole", byId("whole").checked));
byId("reset").addEventListener("click", reset);
addEventListener("resize", later);
reset();
