// Texts in English and Korean, and the language switch. The browser's language
// decides until the user has chosen.

const texts = {
  en: {
    other: "한국어",
    title: "Workspaces · CodeHub",
    sign_in_title: "Sign in · CodeHub",
    sign_in: "Sign in",
    sign_out: "Sign out",
    username: "User name",
    password: "Password",
    skip: "Skip to the workspaces",
    workspaces: "Workspaces",
    new_workspace: "New workspace",
    name: "Name",
    description: "Description (optional)",
    create: "Create",
    empty: "No workspaces yet. Enter a name and create one.",
    cancel: "Cancel",
    open: "Open",
    open_label: (name) => `Open ${name} in a new tab`,
    start: "Start",
    sleep: "Sleep",
    archive: "Archive",
    recover: "Recover",
    delete: "Delete",
    action_label: (action, name) => `${action}: ${name}`,
    delete_title: (name) => `Delete “${name}”?`,
    delete_text: "The workspace will be stopped and its files deleted. You cannot undo this here.",
    connecting: "Connecting…",
    live: "Live",
    lost: "Connection lost, reconnecting…",
    phase: {
      PENDING: "New", ARCHIVED: "Archived", STANDBY: "Asleep", RUNNING: "Running",
      ERROR: "Error", DELETING: "Deleting", DELETED: "Deleted",
    },
    operation: {
      CREATE_EMPTY_ARCHIVE: "Creating an empty archive", PROVISIONING: "Creating the volume", RESTORING: "Restoring the files",
      STARTING: "Starting", STOPPING: "Stopping", ARCHIVING: "Archiving the files", DELETING: "Deleting",
    },
    for_seconds: (n) => n < 60 ? `${n} s` : `${Math.floor(n / 60)} min ${n % 60} s`,
    desired: { RUNNING: "Will start in a moment", STANDBY: "Will go to sleep in a moment", ARCHIVED: "Will be archived in a moment" },
    used: (ago) => `Last used ${ago}`,
    never_used: "Not used yet",
    failed: (reason) => `Error: ${reason}`,
    ask_admin: "An administrator can recover it.",
    problem: {
      "bad-credentials": "Wrong user name or password.",
      "not-signed-in": "Your session has ended. Sign in again.",
      "operation-in-progress": "Another operation is in progress for this workspace. Wait until it has finished, then try again.",
      "not-found": "Not found. The workspace may have been deleted.",
      "forbidden": "Only administrators can do this.",
      "unavailable": "The service is not available at the moment. Try again shortly.",
    },
    limit_user: (limit, names) => `At most ${limit} of your workspaces can run at a time. Put one to sleep first${names ? `: ${names}` : ""}.`,
    limit_global: (limit) => `This server runs at most ${limit} workspaces at a time, and that many are running. Try again later.`,
    unreachable: "The server does not answer. Check your connection and try again.",
    unexpected: (status) => `The request failed (${status}).`,
    name_needed: "Enter a name for the workspace.",
  },
  ko: {
    other: "English",
    title: "워크스페이스 · CodeHub",
    sign_in_title: "로그인 · CodeHub",
    sign_in: "로그인",
    sign_out: "로그아웃",
    username: "사용자 이름",
    password: "비밀번호",
    skip: "워크스페이스 목록으로 바로 가기",
    workspaces: "워크스페이스",
    new_workspace: "새 워크스페이스",
    name: "이름",
    description: "설명 (선택)",
    create: "만들기",
    empty: "아직 워크스페이스가 없습니다. 이름을 입력하고 만들어 보세요.",
    cancel: "취소",
    open: "열기",
    open_label: (name) => `새 탭에서 ${name} 열기`,
    start: "시작",
    sleep: "재우기",
    archive: "보관",
    recover: "복구",
    delete: "삭제",
    action_label: (action, name) => `${action}: ${name}`,
    delete_title: (name) => `“${name}” 워크스페이스를 삭제할까요?`,
    delete_text: "워크스페이스를 중지하고 파일을 삭제합니다. 여기서는 되돌릴 수 없습니다.",
    connecting: "연결 중…",
    live: "실시간 연결됨",
    lost: "연결이 끊겨 다시 연결하는 중…",
    phase: {
      PENDING: "생성 대기", ARCHIVED: "보관됨", STANDBY: "잠자는 중", RUNNING: "실행 중",
      ERROR: "오류", DELETING: "삭제 중", DELETED: "삭제됨",
    },
    operation: {
      CREATE_EMPTY_ARCHIVE: "빈 보관본을 만드는 중", PROVISIONING: "볼륨을 만드는 중", RESTORING: "파일을 복원하는 중",
      STARTING: "시작하는 중", STOPPING: "중지하는 중", ARCHIVING: "파일을 보관하는 중", DELETING: "삭제하는 중",
    },
    for_seconds: (n) => n < 60 ? `${n}초` : `${Math.floor(n / 60)}분 ${n % 60}초`,
    desired: { RUNNING: "곧 시작됩니다", STANDBY: "곧 잠듭니다", ARCHIVED: "곧 보관됩니다" },
    used: (ago) => `마지막 사용: ${ago}`,
    never_used: "아직 사용하지 않음",
    failed: (reason) => `오류: ${reason}`,
    ask_admin: "관리자가 복구할 수 있습니다.",
    problem: {
      "bad-credentials": "사용자 이름 또는 비밀번호가 올바르지 않습니다.",
      "not-signed-in": "세션이 만료되었습니다. 다시 로그인하세요.",
      "operation-in-progress": "이 워크스페이스에서 다른 작업이 진행 중입니다. 작업이 끝난 뒤 다시 시도하세요.",
      "not-found": "워크스페이스를 찾을 수 없습니다. 삭제되었을 수 있습니다.",
      "forbidden": "관리자만 할 수 있는 작업입니다.",
      "unavailable": "지금은 서비스를 이용할 수 없습니다. 잠시 후 다시 시도하세요.",
    },
    limit_user: (limit, names) => `동시에 실행할 수 있는 워크스페이스는 최대 ${limit}개입니다. 먼저 하나를 재우세요${names ? `: ${names}` : ""}.`,
    limit_global: (limit) => `이 서버에서는 워크스페이스를 최대 ${limit}개까지 동시에 실행할 수 있는데, 지금은 빈자리가 없습니다. 나중에 다시 시도하세요.`,
    unreachable: "서버가 응답하지 않습니다. 연결을 확인하고 다시 시도하세요.",
    unexpected: (status) => `요청을 처리하지 못했습니다(${status}).`,
    name_needed: "워크스페이스 이름을 입력하세요.",
  },
};

const listeners = [];
let language = chosen();

function chosen() {
  let stored = null;
  try { stored = localStorage.getItem("language"); } catch { /* storage may be off */ }
  if (stored in texts) return stored;
  const wanted = navigator.languages.map((l) => l.slice(0, 2)).find((l) => l in texts);
  return wanted ?? "en";
}

/** The texts of the chosen language. */
export const t = new Proxy({}, { get: (_, key) => texts[language][key] });

/** The chosen language's tag, for dates. */
export const locale = () => language;

/** Calls f now and whenever the language changes. */
export function onLanguage(f) {
  listeners.push(f);
  f();
}

/** What a failed request means, in the user's language. */
export function explain(failure, runningNames = "") {
  if (failure.problem?.scope === "global") return t.limit_global(failure.problem.limit);
  if (failure.problem?.scope === "user") return t.limit_user(failure.problem.limit, runningNames);
  const kind = failure.problem?.type?.split(":").pop();
  return t.problem[kind] ?? failure.problem?.detail ?? (failure.status ? t.unexpected(failure.status) : t.unreachable);
}

/** A failed request: status is 0 when the server did not answer. */
export class Failure extends Error {
  constructor(status, problem) {
    super(problem?.title ?? `status ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

/** Sends a request to the API; returns its answer or throws a Failure. */
export async function api(method, path, body) {
  const init = { method, headers: {}, credentials: "same-origin" };
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(`/api/v1/${path}`, init);
  } catch {
    throw new Failure(0);
  }
  const text = await answer.text().catch(() => "");
  let data;
  try { data = text ? JSON.parse(text) : undefined; } catch { /* from a proxy in between */ }
  if (!answer.ok) throw new Failure(answer.status, data);
  return data;
}

function apply() {
  document.documentElement.lang = language;
  for (const el of document.querySelectorAll("[data-text]")) el.textContent = t[el.dataset.text];
  const button = document.getElementById("language");
  button.textContent = t.other;
  button.lang = language === "ko" ? "en" : "ko";
  for (const f of listeners) f();
}

document.getElementById("language").addEventListener("click", () => {
  language = language === "ko" ? "en" : "ko";
  try { localStorage.setItem("language", language); } catch { /* storage may be off */ }
  apply();
});
apply();
