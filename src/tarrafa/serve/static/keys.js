// "/" puts the cursor into the search box. Everything works without this.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (/^(input|textarea|select)$/i.test(event.target.tagName)) return;
  const box = document.getElementById("q");
  if (!box) return;
  event.preventDefault();
  box.focus();
  box.select();
});
